"""Prove that shared logs are moved with all other metadata, also there and back, and never over those of others."""

from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from tests.cli.commands.metadata.test_migrations import migrate, migrated
from tests.cli.support.admin import Admin
from tests.cli.support.logs_of_stores import change_log, fill_logs, logs, with_store
from tests.cli.support.store_contents import contents


@pytest.fixture
def target(tmp_path: Path) -> Admin:
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/target.db")
    admin.done("metadata", "format")
    return admin


async def _next_log(store: MetadataStore) -> int:
    return (await KeptLogRecords(store.named_records).create(HubInfo(host="next", port=1))).number


def test_logs_are_moved_there_and_back(admin: Admin, target: Admin) -> None:
    with_store(admin.url, fill_logs)
    moved = logs(admin.url)
    assert migrated(admin, admin.url, target.url)["logs"] == len(moved) == 4
    assert logs(target.url) == moved
    assert target.done("metadata", "describe", "-o", "json").json["format"] == "2.0"
    # Hubs use the target: one changes its log, a sweep deletes another, and a new hub begins one.
    change_log(target.url, 0, (7, 8))
    change_log(target.url, 1, None)
    assert with_store(target.url, _next_log) == 4
    there = logs(target.url)
    stored = contents(target.url)
    admin.done("metadata", "format", "--wipe", "--yes")
    migrated(admin, target.url, admin.url)
    assert logs(admin.url) == there
    assert contents(admin.url) == stored
    assert with_store(admin.url, _next_log) == 5, "no number is given twice"


def test_a_migration_that_is_repeated_moves_what_the_logs_are_then(
    admin: Admin, target: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_store(admin.url, fill_logs)

    async def fail(*_: object) -> None:
        raise RuntimeError("the end of the pause")

    with monkeypatch.context() as patch:
        patch.setattr("hedwig.metadata.freezing.StoreFreeze.move", fail)
        assert migrate(admin, admin.url, target.url).code != 0
    assert logs(target.url) == logs(admin.url), "the pause had moved them already"
    change_log(admin.url, 0, (7, 8))
    change_log(admin.url, 1, None)
    with_store(admin.url, _next_log)
    migrated(admin, admin.url, target.url)
    assert logs(target.url) == logs(admin.url)


def test_a_target_with_logs_of_others_is_refused_at_the_start(admin: Admin, target: Admin) -> None:
    with_store(admin.url, fill_logs)
    with_store(target.url, _next_log)
    before = logs(target.url)
    for more in ((), ("--dry-run",)):
        ran = migrate(admin, admin.url, target.url, *more)
        assert ran.code == ExitCode.FAILED
        assert "log 0 is that of hub hub:4080 of epoch 0, and in the target that of hub next:1" in ran.err
    assert logs(target.url) == before
    assert contents(target.url) == {}


def test_a_target_with_more_logs_than_the_source_ever_had_is_refused(admin: Admin, target: Admin) -> None:
    admin.done("metadata", "format")
    with_store(target.url, _next_log)
    ran = migrate(admin, admin.url, target.url)
    assert ran.code == ExitCode.FAILED
    assert "the target has log 0, and the source has given only 0 numbers" in ran.err
