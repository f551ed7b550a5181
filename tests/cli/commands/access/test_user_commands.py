"""The commands `hedwig-admin access user …`, and a user that logs in with them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, wait_until
from tests.hub.support.running import RunningHub

PASSWORD = "correct horse"


@pytest.fixture
def file(admin: Admin) -> str:
    """A file with the password of ann."""
    path = admin.directory / "ann.txt"
    path.write_text(f"{PASSWORD}\n")
    return str(path)


def test_users_are_added_changed_listed_and_deleted(admin: Admin, file: str) -> None:
    add = ("access", "user", "add", "ann", "--group", "shop", "--group", "billing", "--password-file", file)
    added = admin.done(*add, "-o", "json").json
    assert added == {
        "user": "ann",
        "groups": ["billing", "shop"],
        "passwords": 1,
        "older_until": None,
        "version": 1,
        "result": "added",
    }
    ran = admin.run(*add)
    assert (ran.code, "there is a user ann already" in ran.err) == (ExitCode.VERSION_CONFLICT, True)
    changed = admin.done("access", "user", "set", "user:ann", "--no-groups", "-o", "json").json
    assert (changed["groups"], changed["passwords"], changed["version"]) == ([], 1, 2)
    admin.done("access", "user", "add", "bob", "--password-file", "-", text="battery staple\n")
    assert [row["user"] for row in admin.done("access", "user", "list", "-o", "ndjson").rows] == ["ann", "bob"]
    dry = admin.done("access", "user", "delete", "ann", "--dry-run", "-o", "json").json
    assert dry["result"] == "would delete"
    assert admin.run("access", "user", "delete", "ann", text="n\n").code == ExitCode.FAILED
    assert admin.done("access", "user", "delete", "ann", "--yes", "-o", "json").json["result"] == "deleted"
    assert admin.run("access", "user", "delete", "ann", "--yes").code == ExitCode.NOT_FOUND
    assert admin.done("access", "user", "delete", "ann", "--if-exists", "-o", "json").json["result"] == "absent"
    assert [row["user"] for row in admin.done("access", "user", "list", "-o", "ndjson").rows] == ["bob"]


def test_the_older_password_counts_for_a_while(admin: Admin, file: str) -> None:
    admin.done("access", "user", "add", "ann", "--password-file", file)
    rotate = ("access", "user", "rotate", "ann", "--password-file", file, "-o", "json")
    for _ in range(2):
        rotated = admin.done(*rotate).json
        assert (rotated["passwords"], rotated["older_until"] is None) == (2, False)
    at_once = admin.done(*rotate, "--keep-hours", "0").json
    assert (at_once["passwords"], at_once["older_until"]) == (1, None)


@pytest.mark.parametrize(
    ("words", "text", "why"),
    [
        (("add", "ann"), "", "give --password-file FILE"),
        (("add", "ann", "--password-file", "-"), "short\n", "8 characters or more"),
        (("add", "a nn", "--password-file", "-"), "correct horse\n", "letters, digits and"),
        (("set", "ann"), "", "give --group once or more, or --no-groups"),
        (("set", "ann", "--group", "a", "--no-groups"), "", "give --group once or more, or --no-groups"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(admin: Admin, words: tuple[str, ...], text: str, why: str) -> None:
    ran = admin.run("access", "user", *words, text=text)
    assert (ran.code, why in ran.err) == (ExitCode.USAGE, True), ran.err


@pytest.mark.parametrize("verb", ["rotate", "set"])
def test_nobody_is_made_by_a_change(admin: Admin, file: str, verb: str) -> None:
    words = ("--password-file", file) if verb == "rotate" else ("--group", "shop")
    ran = admin.run("access", "user", verb, "ann", *words)
    assert (ran.code, "there is no user ann" in ran.err) == (ExitCode.NOT_FOUND, True)
    assert admin.done("access", "user", "list", "-o", "ndjson").rows == []


def test_a_user_logs_in(tmp_path: Path, file: str) -> None:
    settings = ("access.mode=rules", "access.anonymous=", "access.mechanisms=SCRAM-SHA-256", "access.refresh_s=0.05")
    with RunningHub(tmp_path / "hub", *settings) as hub:
        admin = Admin(tmp_path, f"sqlite://{hub.data / 'metadata.db'}")
        admin.done("access", "user", "add", "ann", "--password-file", file)
        admin.done("access", "allow", "user:ann", "*", "*", "--as", "*")
        asked = ("publish", "news", "hello", "--hub", hub.address)
        known = (*asked, "--user", "ann", "--password-file", file)
        wait_until(lambda: admin.run(*known).code == 0, "the hub knows ann")
        assert "not permitted" in admin.run(*asked).err
        wrong = tmp_path / "wrong.txt"
        wrong.write_text("battery staple")
        ran = admin.run(*asked, "--user", "ann", "--password-file", str(wrong))
        assert (ran.code, "not authenticated" in ran.err) == (ExitCode.FAILED, True)
        ran = admin.run(*asked, "--user", "ann")
        assert (ran.code, "give --user and --password-file" in ran.err) == (ExitCode.USAGE, True)
        # Neither what the hub has logged nor what it tells of itself has the password.
        assert PASSWORD not in hub.log


def test_a_terminal_is_asked_for_the_password(admin: Admin) -> None:
    program = (sys.executable, "-c", "from hedwig.cli.main import main; main()")
    command = [*program, "access", "user", "add", "ann", "--metadata", admin.url]
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True) as process:
        os.close(follower)
        shown = b""
        for _ in range(2):
            while not shown.endswith(b": "):
                shown += os.read(leader, 1024)
            os.write(leader, PASSWORD.encode() + b"\n")
            shown += b"-"
        assert process.wait(60) == 0, shown
    os.close(leader)
    assert PASSWORD.encode() not in shown
    assert [row["user"] for row in admin.done("access", "user", "list", "-o", "ndjson").rows] == ["ann"]
