"""Prove that the demonstration shows what it says, and that what it proposes next works."""

import shlex
import sys

from tests.cli.admin import Admin

PROGRAM = (sys.executable, "-m", "cli.demo")


def test_demonstration_shows_the_store_at_work(admin: Admin) -> None:
    store = admin.directory / "demo" / "metadata.db"
    ran = admin.run_apart("--directory", str(store.parent), program=PROGRAM)
    assert (ran.code, ran.err) == (0, "")
    assert f"sqlite://{store}" in ran.out
    shown = admin.done("topic", "show", "news", "--metadata", f"sqlite://{store}", "-o", "json").json
    winner = shown["owner"]["host"]
    assert winner in ("hub-a.example", "hub-b.example")
    assert f"{winner} wins" in ran.out
    assert f"is told: the owner is {winner}" in ran.out
    assert [each["consumed"] for each in shown["subscriptions"]] == [42]
    assert "refused: the consume pointer stays at 42" in ran.out
    proposed = [line for line in ran.out.splitlines() if "hedwig-admin " in line]
    assert len(proposed) == 2
    for line in proposed:
        admin.done(*shlex.split(line.partition("hedwig-admin ")[2]))


def test_demonstration_leaves_a_store_alone(admin: Admin) -> None:
    admin.run_apart("--directory", str(admin.directory / "demo"), program=PROGRAM)
    again = admin.run_apart("--directory", str(admin.directory / "demo"), program=PROGRAM)
    assert again.code == 1
    assert "exists" in again.err
