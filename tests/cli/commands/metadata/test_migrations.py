"""Prove that a migration moves everything, however often it is killed, and writes only to its own target."""

import random
import signal
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.operations.checks.verdicts import CheckExit
from tests.cli.support.admin import DEADLINE_S, Admin, Ran, wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.store_contents import contents, fill
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import HubNotServingError
from tests.support.servers import RunningServers

_KILLS: Final = 6


@pytest.fixture
def target(tmp_path: Path) -> Admin:
    """hedwig-admin on the store to be filled, which has no record."""
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/target.db")
    admin.done("metadata", "format")
    return admin


def migrate(admin: Admin, source: str, target: str, *more: str) -> Ran:
    return admin.run("metadata", "migrate", "--from", source, "--to", target, "--yes", *more, "-o", "json")


def migrated(admin: Admin, source: str, target: str, *more: str) -> Any:
    ran = migrate(admin, source, target, *more)
    assert ran.code == 0, ran
    return ran.json


def test_everything_is_moved_but_owners(admin: Admin, target: Admin) -> None:
    fill(admin.url, 200)
    report = migrated(admin, admin.url, target.url)
    moved = contents(target.url)
    assert moved == contents(admin.url, owners=False)
    assert (report["verified"], report["copied"], report["changed_in_pause"]) == (True, len(moved), 0)
    assert sum(report["records"].values()) == len(moved)
    assert report["pause_seconds"] > 0


def test_rules_are_moved(admin: Admin, target: Admin) -> None:
    admin.done("access", "allow", "user:ann", "publish", "t")
    assert migrated(admin, admin.url, target.url)["rules"] == 1
    (rule,) = target.done("access", "list", "-o", "ndjson").rows
    assert (rule["who"], rule["topics"]) == ("user:ann", "t")


def test_store_is_left_for_another_after_asking_only(admin: Admin, target: Admin) -> None:
    fill(admin.url, 10)
    command = ("metadata", "migrate", "--from", admin.url, "--to", target.url)
    for answer, code in (("", ExitCode.USAGE), ("n\n", ExitCode.FAILED)):
        ran = admin.run(*command, text=answer)
        assert (ran.code, admin.url in ran.err, target.url in ran.err) == (code, True, True), ran
        assert contents(target.url) == {}
    admin.done("topic", "create", "not-moved")
    # `--no-pause` copies everything that is there before the pause.
    admin.done(*command, "--no-pause")
    admin.done("topic", "create", "not-moved-either")
    admin.done(*command, text="y\n")
    assert contents(target.url) == contents(admin.url, owners=False)


def test_owners_are_moved_when_asked_for(admin: Admin, target: Admin) -> None:
    fill(admin.url, 60)
    migrated(admin, admin.url, target.url, "--with-owners")
    assert contents(target.url) == contents(admin.url)


def test_empty_store_is_moved(admin: Admin, target: Admin) -> None:
    admin.done("metadata", "format")
    assert migrated(admin, admin.url, target.url)["verified"]
    assert contents(target.url) == {}


def test_migration_goes_between_backends(servers: RunningServers, admin: Admin, target: Admin) -> None:
    """Move a store from SQLite to ZooKeeper to HBase and back; it returns unchanged."""
    fill(admin.url, 120)
    zookeeper = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    servers.address("hbase")
    hbase = f"hbase://{servers.address('zookeeper')}/m{uuid.uuid4().hex[:12]}"
    way = [admin.url, zookeeper, hbase, target.url]
    for url in (zookeeper, hbase):
        admin.done("metadata", "format", "--regions", "3", "--metadata", url, "--timeout", "120")
    for source, destination in pairwise(way):
        migrated(admin, source, destination, "--with-owners", "--hubs-down")
        assert contents(destination) == contents(admin.url)


def test_nobody_writes_to_a_store_that_was_moved_until_it_is_thawed(
    admin: Admin, target: Admin, tmp_path: Path
) -> None:
    fill(admin.url, 20)
    exported, rows = tmp_path / "exported", tmp_path / "rows"
    admin.done("metadata", "export", str(exported))
    rows.write_text("from-a-file\n")
    migrated(admin, admin.url, target.url, "--hubs-down")
    before = contents(admin.url)
    writes = {
        ("topic", "create", "news"): ExitCode.FAILED,
        ("topic", "create", "-f", str(rows), "--result", str(tmp_path / "result")): ExitCode.FAILED,
        ("topic", "delete", "weather/5", "--force", "--offline", "--yes"): ExitCode.FAILED,
        ("subscription", "create", "weather/5", "new"): ExitCode.FAILED,
        ("subscription", "delete", "weather/5", "s-1\\xff", "--yes", "--offline"): ExitCode.FAILED,
        ("subscription", "reset", "weather/5", "s-1\\xff", "--to", "start", "--yes", "--offline"): ExitCode.FAILED,
        ("metadata", "import", str(exported), "--if-exists", "replace", "--yes"): ExitCode.FAILED,
        ("metadata", "repair", "--yes"): ExitCode.FAILED,
        ("check", "perf", "--size", "s"): CheckExit.UNKNOWN,
    }
    for command, code in writes.items():
        ran = admin.run(*command)
        assert (ran.code, f"the metadata were moved to {target.url}" in ran.err) == (code, True), (command, ran)
        assert ran.err.count("error: ") == 1, ran
    assert contents(admin.url) == before
    admin.done("metadata", "thaw", "--yes")
    admin.done("topic", "create", "news")


# ----------------------------------------------------------------------------------------------- what changes meanwhile


def test_what_changes_after_the_copy_is_caught_up_with(admin: Admin, target: Admin) -> None:
    fill(admin.url, 100)
    first = migrated(admin, admin.url, target.url, "--no-pause")
    assert (first["verified"], first["pause_seconds"]) == (False, None)
    fill(admin.url, 50, first=1000)
    admin.done("topic", "delete", "weather/3", "--force", "--offline", "--yes")
    admin.done("topic", "delete", "weather/5", "--force", "--offline", "--yes")
    admin.done("subscription", "create", "weather/5", "s-1\\xff", "--consumed", "5")
    admin.query(
        "DELETE FROM subscriptions WHERE topic = CAST('weather/12' AS BLOB) AND subscriber > CAST('s-2' AS BLOB)"
    )
    again = migrated(admin, admin.url, target.url, "--no-pause")
    assert (again["resumed"], again["verified"]) == (True, False)
    assert again["caught_up"] > 100
    assert contents(target.url) == contents(admin.url, owners=False)
    fill(admin.url, 20, first=2000)
    last = migrated(admin, admin.url, target.url)
    assert (last["changed_in_pause"], last["verified"]) == (0, True)
    assert last["caught_up"] > 20
    assert contents(target.url) == contents(admin.url, owners=False)


# ------------------------------------------------------------------------------------------------- what may be a target


def test_target_with_records_of_its_own_is_refused(admin: Admin, target: Admin) -> None:
    fill(admin.url, 10)
    target.done("topic", "create", "mine")
    ran = migrate(admin, admin.url, target.url)
    assert ran.code == ExitCode.FAILED
    assert target.url in ran.err
    assert "--wipe" in ran.err
    assert len(contents(target.url)) == 1


def test_target_of_a_finished_migration_is_refused_until_it_is_emptied(admin: Admin, target: Admin) -> None:
    fill(admin.url, 10)
    migrated(admin, admin.url, target.url)
    before = contents(target.url)
    fill(admin.url, 10, first=100)
    ran = migrate(admin, admin.url, target.url)
    assert ran.code == ExitCode.FAILED
    assert "has ended; to repeat it" in ran.err
    assert contents(target.url) == before
    target.done("metadata", "format", "--wipe", "--yes")
    migrated(admin, admin.url, target.url)
    assert contents(target.url) == contents(admin.url, owners=False)


def test_target_of_another_migration_is_refused(admin: Admin, target: Admin, tmp_path: Path) -> None:
    fill(admin.url, 10)
    migrated(admin, admin.url, target.url, "--no-pause")
    other = f"sqlite://{tmp_path}/other.db"
    fill(other, 3, first=100)
    before = contents(target.url)
    for source, more in ((other, ()), (admin.url, ("--with-owners",))):
        ran = migrate(admin, source, target.url, *more)
        assert ran.code == ExitCode.FAILED
        assert "unfinished migration" in ran.err
    assert contents(target.url) == before


def test_store_is_never_its_own_target(admin: Admin, tmp_path: Path) -> None:
    fill(admin.url, 5)
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    for url in (admin.url, f"sqlite://{tmp_path}/link.db"):
        ran = migrate(admin, admin.url, url)
        assert ran.code == ExitCode.USAGE
        assert "same store" in ran.err


def test_source_that_is_not_there_is_not_made(target: Admin, tmp_path: Path) -> None:
    ran = migrate(target, f"sqlite://{tmp_path}/mistyped.db", target.url)
    assert ran.code == ExitCode.NOT_FOUND
    assert "--from" in ran.err
    assert not (tmp_path / "mistyped.db").exists()


def test_target_that_was_not_laid_out_is_one_clear_line(admin: Admin, servers: RunningServers) -> None:
    fill(admin.url, 5)
    ran = migrate(admin, admin.url, f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}")
    assert ran.code == ExitCode.FAILED
    assert len(ran.err.splitlines()) == 1
    assert "hedwig-admin metadata format" in ran.err


# ---------------------------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_migration_that_is_killed_again_and_again_ends_whole(seed: int, admin: Admin, target: Admin) -> None:
    fill(admin.url, 1500)
    expected = contents(admin.url, owners=False)
    dice = random.Random(seed)
    kills = 0
    while kills < _KILLS:
        process = target.start("metadata", "migrate", "--from", admin.url, "--to", target.url, "--yes", "-o", "json")
        _wait_for_a_moment(process, target, dice, len(expected))
        process.kill()
        _, said = process.communicate(timeout=DEADLINE_S)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
        kills += 1
    else:
        ran = migrate(target, admin.url, target.url)
        assert ran.code == 0, ran
    assert kills > 0
    assert contents(target.url) == expected


def _wait_for_a_moment(process: Any, target: Admin, dice: random.Random, records: int) -> None:
    """Wait until the target has a random number of records more, or the process has ended."""
    now = target.count("persistence") + target.count("subscriptions")
    wanted = now + dice.randrange(1, max(records // 8, 2))

    def is_time() -> bool:
        there = target.count("persistence") + target.count("subscriptions")
        return there >= min(wanted, records) or process.poll() is not None

    wait_until(is_time, "the migration goes on, or has ended")


def test_interrupted_migration_says_how_to_go_on(admin: Admin, target: Admin) -> None:
    fill(admin.url, 1500)
    process = target.start("metadata", "migrate", "--from", admin.url, "--to", target.url, "--yes")
    wait_until(lambda: target.count("subscriptions"), "the copy has begun")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode in (ExitCode.INTERRUPTED, 0)
    if process.returncode:
        assert b"give the same command again" in said
        migrated(target, admin.url, target.url)
    assert contents(target.url) == contents(admin.url, owners=False)


# ----------------------------------------------------------------------------------------------------------------- hubs


@pytest.fixture
def running(tmp_path: Path) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path) as hub:
        yield hub


def _frozen(hub: HubAndAdmin) -> Any:
    """Return what the hub reports about the freeze of its store."""
    return AdminClient(hub.hub.admin).get("/freeze")


def test_running_hub_must_be_named(running: HubAndAdmin, target: Admin) -> None:
    ran = migrate(target, running.admin.url, target.url)
    assert ran.code == ExitCode.FAILED
    assert "--hub-admin" in ran.err
    assert contents(target.url) == {}


def test_running_hub_is_frozen_from_the_pause_on(running: HubAndAdmin, target: Admin) -> None:
    running.publish("news", b"one", b"two")
    running.subscribe("news", "reader")
    options = ("--hub-admin", running.hub.admin)
    refused = target.run("metadata", "migrate", "--from", running.admin.url, "--to", target.url, *options, text="n\n")
    assert refused.code == ExitCode.FAILED
    assert not _frozen(running)["frozen"]
    ran = migrate(target, running.admin.url, target.url, *options, "--yes")
    assert ran.code == 0, ran
    assert ran.json["verified"]
    assert len(ran.json["hubs"]) == 1
    assert f"restart each with the option metadata = {target.url}" in ran.err
    # The freeze stays. The error of a hub that starts on the old store by mistake names the new one.
    wait_until(lambda: _frozen(running)["state"] == "moved", "the hub knows that its store was moved")
    assert contents(target.url) == contents(running.admin.url, owners=False)
    running.hub.stop()
    with pytest.raises(HubNotServingError) as raised:
        running.start()
    assert raised.value.returncode == ExitCode.USAGE
    assert target.url in str(raised.value)
    # The operator may thaw the old store on purpose.
    show = ("metadata", "thaw", "-o", "json")
    assert running.admin.done(*show, "--dry-run").json["would_thaw"]
    assert running.admin.run(*show, text="n\n").code == ExitCode.FAILED
    assert running.admin.done(*show, "--yes").json["thawed"]
    assert not running.admin.done(*show, "--yes").json["thawed"]
    running.start()
    assert not _frozen(running)["frozen"]
    running.publish("news", b"three")


def test_running_hub_goes_on_once_its_store_is_thawed(running: HubAndAdmin, target: Admin) -> None:
    running.publish("news", b"one")
    migrated(target, running.admin.url, target.url, "--hub-admin", running.hub.admin, "--yes")
    assert _frozen(running)["frozen"]
    running.admin.done("metadata", "thaw", "--yes")
    wait_until(lambda: not _frozen(running)["frozen"], "the hub goes on by itself")
    running.publish("news", b"two")


def test_store_that_was_left_may_be_gone_back_to(admin: Admin, target: Admin) -> None:
    """The store moves there and back: the former source becomes a target, and then serves hubs."""
    fill(admin.url, 30)
    migrated(admin, admin.url, target.url)
    fill(target.url, 10, first=100)
    admin.done("metadata", "format", "--wipe", "--yes")
    migrated(admin, target.url, admin.url)
    assert contents(admin.url) == contents(target.url, owners=False)
    shown = {store: store.done("metadata", "thaw", "--dry-run", "-o", "json").json["was"] for store in (admin, target)}
    assert shown == {admin: "lifted", target: "moved"}


def test_source_keeps_nothing_of_the_changes_that_were_followed(admin: Admin, target: Admin) -> None:
    fill(admin.url, 30)
    migrated(admin, admin.url, target.url, "--no-pause")
    assert not admin.query("SELECT name FROM sqlite_master WHERE name LIKE 'changed%'")


@contextmanager
def _writing_all_the_time(admin: Admin) -> Iterator[None]:
    """Have the migration find a new change whenever it takes one, as if a program wrote between any two rounds."""
    over = threading.Event()

    def write() -> None:
        # The migration makes its table anew, without this trigger, when it begins to compare.
        made = "SELECT 1 FROM sqlite_master WHERE name = 'changed_records'"
        while not over.wait(0.002):
            if admin.query(f"{made} AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'writes_again')"):
                admin.query(
                    "CREATE TRIGGER writes_again AFTER DELETE ON changed_records "
                    "BEGIN INSERT INTO changed_records VALUES (OLD.kind, OLD.topic, OLD.subscriber); END"
                )
                admin.query("UPDATE persistence SET record = record WHERE topic = CAST('many-1' AS BLOB)")

    # The comparison of these topics gives the writer time to begin before the pause, on a busy machine too.
    admin.query(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 3000) "
        "INSERT INTO persistence SELECT CAST('many-' || n AS BLOB), version, record "
        "FROM number, (SELECT version, record FROM persistence LIMIT 1)"
    )
    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def test_hub_is_thawed_when_the_pause_fails(running: HubAndAdmin, target: Admin) -> None:
    running.publish("news", b"one")
    options = ("--hub-admin", running.hub.admin, "--yes")
    with _writing_all_the_time(running.admin):
        ran = migrate(target, running.admin.url, target.url, *options)
    assert ran.code == ExitCode.FAILED
    assert "something still changes" in ran.err
    assert not _frozen(running)["frozen"]
    running.publish("news", b"two")
    # Once nobody writes there any more, the migration finishes.
    assert migrated(target, running.admin.url, target.url, *options)["verified"]
    assert contents(target.url) == contents(running.admin.url, owners=False)


def _standalone(admin: Admin) -> str:
    return str(admin.done("metadata", "describe", "-o", "json").json["standalone_hub"])


def test_hub_that_is_down_is_no_hindrance(running: HubAndAdmin, target: Admin) -> None:
    running.publish("news", b"one")
    running.hub.kill()
    assert migrated(target, running.admin.url, target.url)["hubs"] == []
    # The hub may start on the target, and its epoch continues there.
    assert _standalone(target) == _standalone(running.admin) != ""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    ran = migrate(target, running.admin.url, target.url, "--hub-admin", address)
    assert ran.code == ExitCode.UNAVAILABLE
    assert address in ran.err


def test_whoever_cannot_be_found_must_be_spoken_for(admin: Admin, target: Admin, servers: RunningServers) -> None:
    servers.address("hbase")
    hbase = f"hbase://{servers.address('zookeeper')}/m{uuid.uuid4().hex[:12]}"
    admin.done("metadata", "format", "--regions", "3", "--metadata", hbase, "--timeout", "120")
    ran = migrate(admin, hbase, target.url)
    assert ran.code == ExitCode.USAGE
    assert "--hubs-down" in ran.err
