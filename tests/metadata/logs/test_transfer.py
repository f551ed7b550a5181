"""Prove that the records of logs go to another store once, and never over those of another deployment."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, format_metadata, open_metadata, read_layout
from hedwig.metadata.contract.layout import SHARED_LOGS_MAJOR
from hedwig.metadata.logs.record import LogRecord, LogState, Segment
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.transfer import LogConflictError, bring_logs, logs_to_bring, move_logs
from hedwig.model import HubInfo

ONE = HubInfo(host="one", port=4080, epoch=1)
OTHER = HubInfo(host="other", port=4080, epoch=2)


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path}/target.db"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path}/source.db"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store


def _log(number: int, hub: HubInfo = ONE, ledger: int = 7) -> LogRecord:
    segment = Segment(ledger=ledger, footer=ledger, lowest_slot=1, highest_slot=3, records=5, size=100)
    return LogRecord(number=number, hub=hub, state=LogState.CLOSED, segments=(segment,), change=4)


async def test_logs_are_brought_once_and_their_numbers_are_not_given_again(target: MetadataStore) -> None:
    records = KeptLogRecords(target.named_records)
    logs = [_log(3), _log(17, ledger=8)]
    assert await bring_logs(target, logs) == 2
    layout = await read_layout(target.url.text)
    assert layout is not None
    assert layout.major == SHARED_LOGS_MAJOR
    brought = await records.read(17)
    assert brought == logs[1].imported()
    # A hub goes on with it, and the file is imported again.
    changed = brought.changed(segments=())
    assert await records.replace(brought, changed)
    assert await bring_logs(target, logs) == 0
    assert await records.read(17) == changed, "the later state counts"
    assert (await records.create(OTHER)).number == 18


@pytest.mark.parametrize(
    ("present", "words"),
    [
        (_log(3, OTHER, ledger=1), "log 3 is that of hub one:4080 of epoch 1, and in the store that of hub other:4080"),
        (_log(3, HubInfo(host="one", port=4080, epoch=9), ledger=1), "of epoch 1, .* of epoch 9"),
        (_log(1, OTHER), "ledger 7 is in log 3, and in the store in log 1"),
    ],
    ids=["other hub", "other incarnation", "other log"],
)
async def test_logs_of_two_deployments_are_not_mixed(target: MetadataStore, present: LogRecord, words: str) -> None:
    await KeptLogRecords(target.named_records).bring(present)
    for work in (logs_to_bring(target.named_records, [_log(2, ledger=9), _log(3)]), bring_logs(target, [_log(3)])):
        with pytest.raises(LogConflictError, match=words):
            await work
    assert [each async for each in KeptLogRecords(target.named_records).numbers()] == [present.number]


async def test_a_hub_that_takes_the_number_of_a_brought_log_takes_another(target: MetadataStore) -> None:
    """The hub has counted up before the import did, and writes its record afterwards."""
    records = KeptLogRecords(target.named_records)
    hubs_own = KeptLogRecords(target.named_records)
    next_number = hubs_own._next_number

    async def and_then_an_import() -> int:
        number = await next_number()
        await records.bring(_log(0))
        return number

    hubs_own._next_number = and_then_an_import  # type: ignore[method-assign]
    assert (await hubs_own.create(OTHER)).number == 1
    assert await records.read(0) == _log(0)


@pytest.mark.parametrize("changes", [1, 1000])
async def test_logs_that_change_while_they_are_moved_are_moved_again(
    source: MetadataStore, target: MetadataStore, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = KeptLogRecords(source.named_records)
    for number in range(200):
        await records.bring(_log(number, ledger=number))
    bring_or_replace = KeptLogRecords.replace, KeptLogRecords.bring
    left = changes

    async def change_source() -> None:
        nonlocal left
        if left:
            left -= 1
            present = await records.read(7)
            assert present is not None
            assert await bring_or_replace[0](records, present, present.changed())

    async def replace(self: KeptLogRecords, present: LogRecord, wanted: LogRecord) -> bool:
        await change_source()
        return await bring_or_replace[0](self, present, wanted)

    async def bring(self: KeptLogRecords, record: LogRecord) -> bool:
        await change_source()
        return await bring_or_replace[1](self, record)

    monkeypatch.setattr(KeptLogRecords, "replace", replace)
    monkeypatch.setattr(KeptLogRecords, "bring", bring)
    if changes == 1:
        assert await move_logs(source, target) == 200
        assert await KeptLogRecords(target.named_records).read(7) == await records.read(7)
    else:
        with pytest.raises(MetadataUnavailableError, match="still changes"):
            await move_logs(source, target)
