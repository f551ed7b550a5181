"""Prove that a store with many callers counts the compare-and-sets that were refused, and nothing else."""

import pytest

from hedwig.errors import BadVersionError, NoTopicOwnerInfoError, TopicOwnerInfoExistsError
from hedwig.metadata import Delete, Operation, Read, RecordKey, StoreOptions, Write, open_metadata
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.versions import NEW

TOPIC = Topic(b"news")
HUB = HubInfo(host="hub.example", port=4080)


async def test_each_refused_write_and_delete_counts_once() -> None:
    async with await open_metadata("sqlite://", StoreOptions(gather=True)) as store:
        first = await store.ownership.write(TOPIC, HUB, NEW)
        second = await store.ownership.write(TOPIC, HUB, first)
        assert await store.ownership.read(TOPIC) is not None
        assert store.conflicts == 0
        with pytest.raises(TopicOwnerInfoExistsError):
            await store.ownership.write(TOPIC, HUB, NEW)
        assert store.conflicts == 1
        with pytest.raises(BadVersionError):
            await store.ownership.delete(TOPIC, first)
        assert store.conflicts == 2
        await store.ownership.delete(TOPIC, second)
        with pytest.raises(NoTopicOwnerInfoError):
            await store.ownership.delete(TOPIC, second)
        assert store.conflicts == 3


async def test_batches_count_what_was_refused_of_them_over_all_kinds_of_records() -> None:
    async with await open_metadata("sqlite://", StoreOptions(gather=True)) as store:
        version = await store.persistence.write(TOPIC, LedgerRanges(), NEW)
        key = RecordKey(TOPIC)
        await store.persistence.write(TOPIC, LedgerRanges(), version)
        refused: list[Operation[LedgerRanges]] = [
            Write(key, LedgerRanges(), NEW),
            Delete(key, version),
            Read(RecordKey(Topic(b"none"))),
        ]
        outcomes = await store.persistence.apply(refused)
        assert [isinstance(outcome.error, BadVersionError) for outcome in outcomes] == [True, True, False]
        with pytest.raises(NoTopicOwnerInfoError):
            await store.ownership.write(TOPIC, HUB, version)
        assert store.conflicts == 3


async def test_a_store_with_few_callers_does_not_count() -> None:
    async with await open_metadata("sqlite://") as store:
        await store.ownership.write(TOPIC, HUB, NEW)
        with pytest.raises(TopicOwnerInfoExistsError):
            await store.ownership.write(TOPIC, HUB, NEW)
        assert store.conflicts == 0
