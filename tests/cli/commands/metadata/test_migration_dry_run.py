"""Prove that `metadata migrate --dry-run` reports what the migration would do, and writes nothing anywhere."""

import asyncio
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.metadata.freezing import RECORD_NAME as FREEZE
from hedwig.metadata.migration.run import RECORD_NAME as MIGRATION
from hedwig.metadata.standalone import RECORD_NAME as STANDALONE
from tests.cli.support.admin import Admin, Ran
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.store_contents import contents, fill
from tests.hub.support.admin_client import AdminClient
from tests.support.servers import RunningServers

_NAMED: Final = (FREEZE, MIGRATION, STANDALONE)


@pytest.fixture
def target(tmp_path: Path) -> Admin:
    """hedwig-admin on the store to be filled, which has no record."""
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/target.db")
    admin.done("metadata", "format")
    return admin


def _planned(admin: Admin, source: str, target: str, *more: str) -> Ran:
    return admin.run("metadata", "migrate", "--from", source, "--to", target, "--dry-run", *more, "-o", "json")


def _whole(url: str) -> Any:
    """Return every record and named record of a store; for a file also the schema, read past the code under test."""

    async def named() -> list[bytes | None]:
        async with await open_metadata(url) as store:
            return [await store.named_records.read(name) for name in _NAMED]

    dump: list[str] = []
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite://"))) as connection:
            dump.extend(connection.iterdump())
    return contents(url), asyncio.run(named()), dump


def _tells_changes(url: str) -> bool:
    async def ask() -> bool:
        async with await open_metadata(url) as store:
            return store.changes() is not None

    return asyncio.run(ask())


def test_plan_counts_by_kind_and_writes_nothing(admin: Admin, target: Admin) -> None:
    fill(admin.url, 50)
    before = _whole(admin.url), _whole(target.url)
    ran = _planned(admin, admin.url, target.url)
    assert (ran.code, ran.err) == (0, "")
    held = contents(admin.url, owners=False)
    assert ran.json == {
        "from": admin.url,
        "to": target.url,
        "records": {kind: sum(each == kind for each, _, _ in held) for kind in ("persistence", "subscriptions")},
        "source_state": "open",
        "target_state": "empty",
        "resumed": False,
        "copied": 0,
        "hubs": [],
        "compares_in_pause": "what changed last",
        "ready": True,
        "dry_run": True,
    }
    assert _planned(admin, admin.url, target.url, "--with-owners").json["records"]["ownership"] > 0
    assert (_whole(admin.url), _whole(target.url)) == before


def test_plan_says_what_the_migration_then_does(admin: Admin, target: Admin) -> None:
    fill(admin.url, 40)
    planned = _planned(admin, admin.url, target.url).json
    done = admin.done("metadata", "migrate", "--from", admin.url, "--to", target.url, "--yes", "-o", "json").json
    assert planned["records"] == done["records"]
    assert planned["hubs"] == done["hubs"]


def test_file_that_is_not_there_is_not_made(admin: Admin, tmp_path: Path) -> None:
    fill(admin.url, 5)
    missing = tmp_path / "missing.db"
    assert _planned(admin, admin.url, f"sqlite://{missing}").json["target_state"] == "absent"
    refused = _planned(admin, admin.url, f"sqlite://{missing}?create=false")
    assert (refused.code, refused.json["ready"]) == (ExitCode.FAILED, False)
    assert "metadata format" in refused.err
    assert _planned(admin, f"sqlite://{missing}", admin.url).code == ExitCode.NOT_FOUND
    assert not missing.exists()


def test_migration_that_was_ended_is_told_to_go_on(admin: Admin, target: Admin) -> None:
    fill(admin.url, 30)
    first = admin.done("metadata", "migrate", "--from", admin.url, "--to", target.url, "--no-pause", "-o", "json").json
    before = _whole(admin.url), _whole(target.url)
    planned = _planned(admin, admin.url, target.url).json
    assert (planned["target_state"], planned["resumed"], planned["copied"]) == ("half filled", True, first["copied"])
    assert _planned(admin, admin.url, target.url, "--no-pause").json["compares_in_pause"] is None
    assert (_whole(admin.url), _whole(target.url)) == before


def test_targets_that_cannot_be_used_are_told(admin: Admin, target: Admin) -> None:
    fill(admin.url, 10)
    target.done("topic", "create", "mine")
    before = _whole(admin.url), _whole(target.url)
    ran = _planned(admin, admin.url, target.url)
    assert (ran.code, ran.json["target_state"], ran.json["ready"]) == (ExitCode.FAILED, "in use", False)
    assert len(ran.err.splitlines()) == 1
    assert target.url in ran.err
    assert "--wipe" in ran.err
    assert (_whole(admin.url), _whole(target.url)) == before
    assert _planned(admin, admin.url, admin.url).code == ExitCode.USAGE


def test_store_that_was_moved_is_told(admin: Admin, target: Admin, tmp_path: Path) -> None:
    fill(admin.url, 10)
    admin.done("metadata", "migrate", "--from", admin.url, "--to", target.url, "--yes")
    planned = _planned(admin, admin.url, f"sqlite://{tmp_path}/another.db").json
    assert planned["source_state"] == "moved"
    assert _planned(admin, admin.url, target.url).json["target_state"] == "in use"


def test_running_hub_is_named_and_goes_on(tmp_path: Path, target: Admin) -> None:
    with HubAndAdmin(tmp_path) as running:
        running.publish("news", b"one")
        before = _whole(running.admin.url), _whole(target.url)
        blind = _planned(target, running.admin.url, target.url)
        assert blind.code == ExitCode.FAILED
        assert "--hub-admin" in blind.err
        ran = _planned(target, running.admin.url, target.url, "--hub-admin", running.hub.admin)
        assert (ran.code, ran.err) == (0, "")
        (address,) = ran.json["hubs"]
        assert address.startswith(running.hub.address)
        assert not AdminClient(running.hub.admin).get("/freeze")["frozen"]
        assert (_whole(running.admin.url), _whole(target.url)) == before
        running.publish("news", b"two")


def test_servers_are_only_read(servers: RunningServers, admin: Admin) -> None:
    servers.address("hbase")
    zookeeper = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    hbase = f"hbase://{servers.address('zookeeper')}/m{uuid.uuid4().hex[:12]}"
    admin.done("metadata", "format", "--metadata", zookeeper)
    fill(zookeeper, 20)
    # The command reports all obstacles, not only the first.
    blocked = _planned(admin, zookeeper, hbase, "--hubs-down")
    assert (blocked.code, blocked.json["target_state"]) == (ExitCode.FAILED, "absent")
    assert "metadata format" in blocked.err
    assert admin.run("metadata", "describe", "--metadata", hbase).code == ExitCode.FAILED
    admin.done("metadata", "format", "--regions", "3", "--metadata", hbase, "--timeout", "120")
    before = _whole(zookeeper), _whole(hbase)
    planned = _planned(admin, zookeeper, hbase, "--hubs-down").json
    assert (planned["target_state"], planned["ready"]) == ("empty", True)
    assert planned["compares_in_pause"] == ("what changed last" if _tells_changes(zookeeper) else "everything")
    untold = _planned(admin, hbase, zookeeper)
    assert untold.code == ExitCode.FAILED
    assert "which hubs use" in untold.err
    assert "--wipe" in untold.err
    assert (_whole(zookeeper), _whole(hbase)) == before
