"""The index of subscriptions by subscriber: it has an entry for each subscription, whatever happens to its makers."""

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataError, MetadataUnavailableError, RecordTooLargeError, UncertainStateError
from hedwig.metadata import IndexState, MetadataStore, StoreOptions, format_metadata, open_metadata
from hedwig.metadata.bulk.repairs import RepairResult
from hedwig.metadata.bulk.subscriber_index import enter, enter_all, remove_entry, unindexed
from hedwig.metadata.calls.indexed_table import IndexedTable, entry_key
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER, SUBSCRIPTIONS
from hedwig.metadata.contract.operations import Delete, Operation, Outcome, RecordKey, Write
from hedwig.metadata.contract.table import TableOver
from hedwig.metadata.testing import samples
from hedwig.model import SubscriberId, SubscriptionData, SubscriptionPreferences, Topic
from hedwig.versions import ANY, NEW, Version
from tests.metadata.hbase.native.support.tables import drop_tables
from tests.support.servers import RunningServers

OPTIONS = StoreOptions(regions=3, indexes_subscribers=True)
TOPIC, READER = Topic(b"news"), SubscriberId(b"reader")
KEY = RecordKey(TOPIC, READER)
DATA = samples.subscription(1)


class LaterClock(SystemClock):
    """A clock two hours ahead, so that new entries seem old."""

    def wall(self) -> float:
        return time.time() + 7200


@pytest.fixture
def url(servers: RunningServers) -> str:
    """The URL of a store that no other test uses."""
    servers.address("hbase")
    return f"hbase://{servers.address('zookeeper')}/i{uuid.uuid4().hex}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[MetadataStore]:
    """A store whose index is whole."""
    await format_metadata(url, OPTIONS)
    async with await open_metadata(url, OPTIONS) as store:
        yield store
    await drop_tables(url)


async def topics_of(store: MetadataStore) -> list[Topic]:
    return [record.key.topic async for page in store.subscriptions_of(READER) for record in page]


async def has_entry(store: MetadataStore, key: RecordKey = KEY) -> bool:
    return await store.index_entries.read(entry_key(key)) is not None


class Between(TableOver[SubscriptionData]):
    """The table of subscriptions. What stands in `work` happens once the operations were sent, or instead of them."""

    def __init__(
        self, store: MetadataStore, work: Callable[[], Awaitable[None]], error: MetadataError | None = None
    ) -> None:
        super().__init__(store._backend.table(SUBSCRIPTIONS))
        self._work = work
        self._error = error

    async def write(
        self,
        key: RecordKey,
        record: SubscriptionData,
        version: Version,
        *,
        merge: bool = False,
        deadline: Deadline | None = None,
    ) -> Version:
        if self._error is not None:
            raise self._error
        return await super().write(key, record, version, merge=merge, deadline=deadline)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        await super().delete(key, version, deadline)
        await self._work()

    async def apply(
        self, operations: Sequence[Operation[SubscriptionData]], deadline: Deadline | None = None
    ) -> list[Outcome[SubscriptionData]]:
        if self._error is not None:
            return [Outcome(error=self._error)] * len(operations)
        outcomes = await super().apply(operations, deadline)
        await self._work()
        return outcomes


async def nothing() -> None:
    """Let nothing happen in between."""


# ------------------------------------------------------------------------------------------------------ its beginning


async def test_new_store_has_a_whole_index_if_it_is_to_have_one(url: str) -> None:
    await format_metadata(url, StoreOptions(regions=3))
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.OFF
        await store.set_index_state(IndexState.OFF)
        assert not any(name.endswith(":subscribers") for name in await store.describe()), "there is nothing to end"
    await format_metadata(url, OPTIONS)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.OFF, "it was there before, and has subscriptions without entry"
    await format_metadata(url, OPTIONS, wipe=True)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.WHOLE
        await store.subscriptions.create(TOPIC, READER, DATA)
        assert await has_entry(store)
    await format_metadata(url, StoreOptions(regions=3))
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.WHOLE
        assert await topics_of(store) == [TOPIC]
    await format_metadata(url, OPTIONS, wipe=True)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.WHOLE
        assert not await has_entry(store)
    await format_metadata(url, StoreOptions(regions=3), wipe=True)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.OFF
    await drop_tables(url)


async def test_index_that_is_begun_later_is_whole_once_it_was_filled(url: str) -> None:
    await format_metadata(url, StoreOptions(regions=3))
    topics = [Topic(b"t%04d" % number) for number in range(1500)]
    async with await open_metadata(url) as before:
        keys = [RecordKey(topic, READER) for topic in topics]
        made = await before.subscriptions.apply([Write(key, DATA, NEW) for key in keys])
        for outcome in made:
            outcome.written()
        await before.set_index_state(IndexState.KEPT)
        await before.subscriptions.create(Topic(b"of a hub from before"), READER, DATA)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.KEPT
        await store.subscriptions.create(TOPIC, READER, DATA)
        assert await has_entry(store)
        assert not await has_entry(store, keys[0])
        assert sorted(await topics_of(store)) == sorted([*topics, TOPIC, Topic(b"of a hub from before")])
        seen = 0

        def advance(number: int) -> None:
            nonlocal seen
            seen += number

        assert await enter_all(store, advance) == 1501
        assert seen == 1502
        assert await enter_all(store, advance) == 0
        await store.set_index_state(IndexState.WHOLE)
    async with await open_metadata(url) as store:
        assert store.index_state is IndexState.WHOLE
        assert await topics_of(store) == sorted([*topics, TOPIC, Topic(b"of a hub from before")])
        await store.set_index_state(IndexState.OFF)
    async with await open_metadata(url) as store:
        await store.subscriptions.create(Topic(b"later"), READER, DATA)
        assert not await has_entry(store, RecordKey(Topic(b"later"), READER))
        assert len(await topics_of(store)) == 1503
    await drop_tables(url)


# ----------------------------------------------------------------------------------------------------- what is refused


async def test_subscription_is_not_made_without_its_entry(store: MetadataStore, url: str) -> None:
    backend = store._backend
    await backend._drop(backend._names.name(BY_SUBSCRIBER))  # type: ignore[attr-defined]
    with pytest.raises(MetadataError):
        await store.subscriptions.create(TOPIC, READER, DATA)
    assert await store.subscriptions.read(TOPIC, READER) is None
    await format_metadata(url, OPTIONS)
    await store.subscriptions.create(TOPIC, READER, DATA)
    assert await topics_of(store) == [TOPIC]


async def test_refused_creation_leaves_no_new_entry(store: MetadataStore) -> None:
    large = SubscriptionData(preferences=SubscriptionPreferences(message_filter="x" * 600_000))
    with pytest.raises(RecordTooLargeError):
        await store.subscriptions.create(TOPIC, READER, large)
    assert not await has_entry(store)
    await store.subscriptions.create(TOPIC, READER, DATA)
    with pytest.raises(RecordTooLargeError):
        await store.subscriptions.create(TOPIC, READER, large)
    assert await has_entry(store)


async def test_entry_stays_if_it_is_not_known_whether_its_subscription_was_made(store: MetadataStore) -> None:
    lost = IndexedTable(Between(store, nothing, UncertainStateError("no answer")), store.index_entries, OPTIONS)
    refused = IndexedTable(Between(store, nothing, MetadataUnavailableError("no")), store.index_entries, OPTIONS)
    alone, together = RecordKey(Topic(b"alone"), READER), RecordKey(Topic(b"together"), READER)
    with pytest.raises(MetadataUnavailableError):
        await refused.write(alone, DATA, NEW)
    await refused.apply([Write(together, DATA, NEW)])
    assert [await has_entry(store, key) for key in (alone, together)] == [False, False]
    with pytest.raises(UncertainStateError):
        await lost.write(alone, DATA, NEW)
    await lost.apply([Write(together, DATA, NEW)])
    assert [await has_entry(store, key) for key in (alone, together)] == [True, True]
    assert await topics_of(store) == [], "readers ignore them"


async def test_subscription_that_one_batch_deletes_and_makes_keeps_its_entry(store: MetadataStore) -> None:
    batches: tuple[list[Operation[SubscriptionData]], ...] = (
        [Delete(KEY, ANY), Write(KEY, DATA, NEW)],
        [Write(KEY, DATA, NEW), Delete(KEY, ANY)],
        [Write(KEY, DATA, ANY), Delete(KEY, ANY)],
    )
    stayed = 0
    for operations in batches:
        for _ in range(10):
            await store.subscriptions.apply(operations)
            if await store.subscriptions.read(TOPIC, READER) is not None:
                stayed += 1
                assert await has_entry(store)
    assert stayed > 0, "it was there at the end of some batch"


# ---------------------------------------------------------------------------------------------------------- who is late


async def test_late_removal_of_an_entry_is_refused_once_the_subscription_was_made_again(
    store: MetadataStore, url: str
) -> None:
    await store.subscriptions.create(TOPIC, READER, DATA)
    async with await open_metadata(url, OPTIONS) as other:

        async def made_again() -> None:
            await other.subscriptions.create(TOPIC, READER, DATA)

        late = IndexedTable(Between(store, made_again), store.index_entries, OPTIONS)
        await late.delete(KEY, ANY)
        assert await has_entry(store)
        await late.apply([Delete(KEY, ANY)])
        assert await has_entry(store)
        assert await topics_of(store) == [TOPIC]


# ---------------------------------------------------------------------------------------------------------- its repair


async def test_subscription_without_entry_is_found_and_entered(store: MetadataStore) -> None:
    await store.subscriptions.create(TOPIC, READER, DATA)
    await store.index_entries.delete(entry_key(KEY), ANY)
    gone = RecordKey(Topic(b"gone"), READER)
    assert await unindexed(store, [KEY, gone]) == [KEY]
    assert await enter(store, KEY) is RepairResult.REPAIRED
    assert await enter(store, KEY) is RepairResult.CHANGED
    assert await unindexed(store, [KEY, gone]) == []
    assert await topics_of(store) == [TOPIC]


async def test_entry_without_subscription_is_found_once_it_is_old_and_removed(store: MetadataStore, url: str) -> None:
    await store.subscriptions.create(TOPIC, READER, DATA)
    stray = RecordKey(Topic(b"stray"), READER)
    version = await store.index_entries.write(entry_key(stray), None, NEW)
    assert [entries async for entries in store.stray_entries(3600)] == []
    async with await open_metadata(url, StoreOptions(clock=LaterClock())) as later:
        assert [entries async for entries in later.stray_entries(3600)] == [[(stray, version)]]
        await store.index_entries.write(entry_key(stray), None, version)
        assert await remove_entry(later, stray, version) is RepairResult.CHANGED, "somebody is about to make it"
        ((found,),) = [entries async for entries in later.stray_entries(3600)]
        assert await remove_entry(later, *found) is RepairResult.REPAIRED
        assert [entries async for entries in later.stray_entries(3600)] == []
        assert await later.sweep() >= 1, "what removed entries leave behind is swept"
    assert await topics_of(store) == [TOPIC]
