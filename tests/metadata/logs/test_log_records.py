"""Prove that the records of logs are kept in the metadata store, each under a number that is given once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.errors import CorruptRecordError, UncertainStateError
from hedwig.metadata import MetadataStore, NamedRecords, format_metadata, open_metadata
from hedwig.metadata.logs.record import LogState, Segment
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo

AT_ONCE = 20


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store


class _AnswersLost:
    """Named records whose writes take effect, while the answer to each first try is lost."""

    def __init__(self, records: NamedRecords) -> None:
        self._records = records
        self._tried: set[tuple[str, bytes]] = set()

    async def read(self, name: str) -> bytes | None:
        return await self._records.read(name)

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        done = await self._records.replace(name, expected, value)
        if (name, value) not in self._tried:
            self._tried.add((name, value))
            # Others go on in between.
            await asyncio.sleep(0.001)
            raise UncertainStateError("the answer was lost")
        return done

    async def delete(self, name: str, expected: bytes) -> bool:
        return await self._records.delete(name, expected)

    async def names(self, prefix: str) -> list[str]:
        return list(await self._records.names(prefix))


@pytest.mark.parametrize("answers_are_lost", [False, True])
async def test_no_two_logs_have_one_number(metadata: MetadataStore, answers_are_lost: bool) -> None:
    named = _AnswersLost(metadata.named_records) if answers_are_lost else metadata.named_records
    records = KeptLogRecords(named)
    made = await asyncio.gather(*(records.create(HubInfo(host="h", port=number)) for number in range(AT_ONCE)))
    numbers = sorted(each.number for each in made)
    assert len(set(numbers)) == AT_ONCE
    assert [number async for number in records.numbers()] == numbers
    for record in made:
        assert await records.read(record.number) == record


async def test_silent_store_is_given_up_after_two_operation_timeouts(
    metadata: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = KeptLogRecords(metadata.named_records)
    record = await records.create(HubInfo(host="here", port=4080, epoch=9))
    tried = 0

    async def replace(*_: object) -> bool:
        nonlocal tried
        tried += 1
        raise UncertainStateError("no answer within the operation timeout")

    monkeypatch.setattr(type(metadata.named_records), "replace", replace)
    with pytest.raises(UncertainStateError):
        await records.replace(record, record.changed(listed=(1, 2)))
    assert tried == 2


async def test_record_goes_from_change_to_change(metadata: MetadataStore) -> None:
    records, others = KeptLogRecords(metadata.named_records), KeptLogRecords(metadata.named_records)
    first = await records.create(HubInfo(host="here", port=4080, epoch=9))
    listed = first.changed(listed=(7, 8))
    assert await records.replace(first, listed)
    assert not await others.replace(first, first.changed(state=LogState.FENCED))
    segment = Segment(ledger=7, footer=9, lowest_slot=1, highest_slot=70_000, records=5, size=1 << 40)
    closed = listed.changed(state=LogState.CLOSED, listed=(), segments=(segment,))
    assert await others.replace(listed, closed)
    assert await records.read(first.number) == closed
    assert not await records.delete(listed)
    assert await records.delete(closed)
    assert await records.read(first.number) is None
    assert not await records.replace(closed, closed.changed(state=LogState.OPEN))
    assert (await records.create(HubInfo(host="here", port=4080, epoch=9))).number > first.number


@pytest.mark.parametrize("damage", [b"", b"x", b"-1", b" 4"])
async def test_damaged_count_gives_no_number(metadata: MetadataStore, damage: bytes) -> None:
    records = KeptLogRecords(metadata.named_records)
    await records.create(HubInfo(host="here", port=4080, epoch=9))
    present = await metadata.named_records.read("logs")
    assert present is not None
    await metadata.named_records.replace("logs", present, damage or b"\0")
    with pytest.raises(CorruptRecordError, match="number of logs"):
        await records.create(HubInfo(host="here", port=4080, epoch=9))


async def test_damaged_record_is_an_error(metadata: MetadataStore) -> None:
    records = KeptLogRecords(metadata.named_records)
    record = await records.create(HubInfo(host="here", port=4080, epoch=9))
    name = f"log-{record.number:010}"
    present = await metadata.named_records.read(name)
    assert present is not None
    assert await metadata.named_records.replace(name, present, present[:-1])
    with pytest.raises(CorruptRecordError, match=f"log {record.number}: "):
        await records.read(record.number)
