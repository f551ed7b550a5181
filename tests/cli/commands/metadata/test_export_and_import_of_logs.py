"""Prove that an export has the shared logs that its records name, and that an import brings them in first."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import NEW, MetadataStore, NamedRecords, open_metadata
from hedwig.metadata.bulk.export_file import verify
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, Topic
from tests.cli.support.admin import Admin
from tests.cli.support.store_contents import contents

T = TypeVar("T")

HUBS: Final = [HubInfo(host="hub", port=4080, epoch=epoch) for epoch in range(4)]


def _with_store(url: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await open_metadata(url) as store:
            return await work(store)

    return asyncio.run(run())


async def _fill(store: MetadataStore) -> None:
    """Make four logs: two that ranges of a topic each name, one that an owner names, and one that nobody names."""
    logs = [await KeptLogRecords(store.named_records).create(hub) for hub in HUBS]
    for number, topic in enumerate((Topic(b"a/1"), Topic(b"b/1"))):
        virtual = LedgerRange(ledger_id=virtual_id(logs[number].number, 1), start=1, end=MessageSeqId(5))
        ranges = (LedgerRange(ledger_id=9, start=1, end=MessageSeqId(0)), virtual)
        await store.persistence.write(topic, LedgerRanges(ranges), NEW)
    await store.ownership.write(Topic(b"c/1"), HubInfo(host="hub", port=4080, epoch=2, log=2), NEW)


def _logs(url: str) -> list[LogRecord]:
    async def read(store: MetadataStore) -> list[LogRecord]:
        records = KeptLogRecords(store.named_records)
        return [log async for number in records.numbers() if (log := await records.read(number)) is not None]

    return _with_store(url, read)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hedwig.metadata.gz"


@pytest.fixture
def other(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/other.db"


def test_logs_go_with_the_records_that_name_them(admin: Admin, file: Path, other: str) -> None:
    _with_store(admin.url, _fill)
    assert admin.done("metadata", "export", str(file), "-o", "json").json["logs"] == 3
    planned = admin.done("metadata", "import", str(file), "--metadata", other, "--dry-run", "-o", "json").json
    assert (planned["logs"], planned["would_create_logs"], planned["format"]) == (3, 2, "2.0")
    ran = admin.done("metadata", "import", str(file), "--metadata", other, "-o", "json").json
    assert ran["logs_created"] == 2
    assert [(log.number, log.hub) for log in _logs(other)] == list(enumerate(HUBS[:2])), "no owner, so none of its log"
    ran = admin.done("metadata", "import", str(file), "--with-owners", "--metadata", other, "-o", "json").json
    assert (ran["logs_created"], ran["equal"], ran["created"]) == (1, 2, 1)
    assert contents(other) == contents(admin.url)
    assert admin.done("metadata", "describe", "--metadata", other, "-o", "json").json["format"] == "2.0"


def test_a_prefix_takes_only_the_logs_that_its_topics_name(admin: Admin, file: Path, other: str) -> None:
    _with_store(admin.url, _fill)
    assert admin.done("metadata", "export", str(file), "--prefix", "b", "-o", "json").json["logs"] == 1
    admin.done("metadata", "export", str(file), "--overwrite")
    admin.done("metadata", "import", str(file), "--prefix", "b", "--metadata", other)
    assert [log.number for log in _logs(other)] == [1]


def test_an_import_goes_on_with_the_logs_of_its_own_store(admin: Admin, file: Path) -> None:
    _with_store(admin.url, _fill)
    admin.done("metadata", "export", str(file))

    async def go_on(store: MetadataStore) -> None:
        records = KeptLogRecords(store.named_records)
        kept, gone = [await records.read(number) for number in (0, 1)]
        assert kept is not None
        assert gone is not None
        assert await records.replace(kept, kept.changed(listed=(70,)))
        assert await records.delete(gone)

    _with_store(admin.url, go_on)
    before = _logs(admin.url)
    ran = admin.done("metadata", "import", str(file), "-o", "json").json
    assert ran["logs_created"] == 1
    after = _logs(admin.url)
    assert [each.listed for each in after] == [(70,), (), (), ()]
    assert [each.imports for each in after] == [each.imports + 1 for each in before[:1]] + [0, 1, 1]


def test_logs_of_another_deployment_end_an_import_before_it_begins(admin: Admin, file: Path, other: str) -> None:
    _with_store(admin.url, _fill)
    admin.done("metadata", "export", str(file))

    async def begin(store: MetadataStore) -> None:
        await KeptLogRecords(store.named_records).create(HubInfo(host="foreign", port=4080, epoch=1))

    _with_store(other, begin)
    before = _logs(other)
    for more in ((), ("--dry-run",)):
        ran = admin.run("metadata", "import", str(file), "--metadata", other, *more)
        assert ran.code == ExitCode.FAILED
        assert "two deployments" in ran.err
        assert "hub foreign:4080" in ran.err
        assert ran.err.count("\n") == 1
    assert _logs(other) == before
    assert contents(other) == {}


def test_a_log_that_is_gone_is_left_out(admin: Admin, file: Path) -> None:
    """Its last range was deleted after the export had read it, so that the sweep has removed the log."""
    _with_store(admin.url, _fill)

    async def remove(store: MetadataStore) -> None:
        records = KeptLogRecords(store.named_records)
        present = await records.read(0)
        assert present is not None
        await records.delete(present)

    _with_store(admin.url, remove)
    admin.done("metadata", "export", str(file))
    assert [log.number for log in verify(file).logs] == [1, 2]


def test_a_first_log_during_an_export_ends_it(admin: Admin, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header says already that the file has none, and an older release would read it."""
    _with_store(admin.url, _fill)

    async def none_yet(records: NamedRecords) -> bool:
        return False

    monkeypatch.setattr("hedwig.cli.commands.metadata.exporting.has_logs", none_yet)
    ran = admin.run("metadata", "export", str(file))
    assert ran.code == ExitCode.FAILED
    assert "give the command again" in ran.err
    assert not file.exists()
