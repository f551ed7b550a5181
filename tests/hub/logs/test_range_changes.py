"""The range record of a topic: who changes it, when no hub may any more, and changes without an answer."""

import asyncio
import contextlib
import enum
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import BadVersionError, HedwigError, MetadataError, ServiceDownError, UncertainStateError
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.ledger_deletions import LedgerDeletions
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.recent_messages import RecentMessages
from hedwig.hub.options.options import HubOptions
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.metadata.managers import TablePersistenceManager
from hedwig.model import LedgerRanges, MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.versions import Version, Versioned
from hedwig.wire import Message
from tests.faults.support.waiting import until
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.wire_client import DEADLINE_S, WireClient

T = Topic(b"T")


class Fate(enum.Enum):
    """The outcome of a write whose answer is lost."""

    APPLIED = enum.auto()
    LOST = enum.auto()
    LATE = enum.auto()
    """The write reaches the store after the next write."""


class DoubtfulPersistence:
    """The real manager. Writes get no answer as long as there are `fates` for them."""

    def __init__(self, store: MetadataStore) -> None:
        self._manager = store.persistence
        self.fates: list[Fate] = []
        self.late: list[tuple[LedgerRanges, Version]] = []

    async def write(self, topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        if self.fates:
            match self.fates.pop(0):
                case Fate.APPLIED:
                    with contextlib.suppress(BadVersionError):  # An earlier attempt has applied it.
                        await self._manager.write(topic, ranges, version)
                case Fate.LATE:
                    self.late.append((ranges, version))
            raise UncertainStateError("the test lost the answer")
        try:
            return await self._manager.write(topic, ranges, version)
        finally:
            late, self.late = self.late, []
            for each, expected in late:
                with pytest.raises(BadVersionError):
                    await self._manager.write(topic, each, expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


class Listener:
    """The topic, as the log calls it. `is_claimed` is the content of the owner record."""

    has_attached = False

    def __init__(self) -> None:
        self.lost: HedwigError | None = None
        self.is_claimed = True

    def on_message(self, local: int, stored: bytes) -> None:
        """Do nothing: no subscriber is attached."""

    def on_ledger_closed(self) -> None:
        """Do nothing: the test collects by itself."""

    async def is_owned(self) -> bool:
        return self.is_claimed

    def on_lost(self, error: HedwigError) -> None:
        self.lost = error


class Owner:
    """A log of T, and a listener that records its end."""

    def __init__(self, log: DurableLog) -> None:
        self.log = log
        self.listener = Listener()
        log.attach_listener(self.listener)

    async def publish(self, count: int) -> list[HedwigError | None]:
        """Publish all at once; return the outcome of each."""
        outcomes: list[HedwigError | None] = []
        for _ in range(count):
            self.log.publish(Message(b"m"), lambda _id, _remote, error: outcomes.append(error))
        await until(lambda: len(outcomes) == count and self.log.is_idle, "all are answered")
        return outcomes


class Stores:
    """Both stores, and logs of T over them."""

    def __init__(self, store: LogContext, doubtful: DoubtfulPersistence) -> None:
        self.store = store
        self.doubtful = doubtful

    async def open(self, *, taken_over: bool) -> Owner:
        return Owner(await DurableLog.open(self.store, T, taken_over=taken_over))

    async def record(self) -> Versioned[LedgerRanges]:
        record = await self.store.persistence.read(T)
        assert record is not None
        return record

    async def ledger_ids(self) -> list[int]:
        return [ledger_id async for ledger_id in self.store.ledgers.ledgers()]

    async def check(self, owner: Owner) -> None:
        """Compare the log, the record and the ledgers with each other."""
        assert owner.listener.lost is None
        recorded = (await self.record()).value.ranges
        assert recorded == owner.log.ranges.ranges
        assert await self.ledger_ids() == [each.ledger_id for each in recorded]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    """An empty topic whose ledgers take three messages each."""
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    ledgers = await LocalLedgerStore.open(
        tmp_path / "ledgers", LocalLedgerOptions(segment_bytes=1 << 16, reserve_bytes=1 << 16), None, random.Random(1)
    )
    async with await open_metadata(url) as metadata:
        doubtful = DoubtfulPersistence(metadata)
        persistence: Any = doubtful
        options = replace(HubOptions(repeat_window_s=0.0), ledger_messages_max=3)
        deletions = LedgerDeletions(SystemClock(), 5.0, ledgers)
        yield Stores(LogContext(ledgers, persistence, options, RecentMessages(0), b"here", deletions), doubtful)
        await deletions.close()
        await ledgers.aclose()


@pytest.mark.parametrize("is_open", [True, False], ids=["a ledger is open", "all are closed"])
@pytest.mark.parametrize("fate", Fate)
async def test_a_deletion_that_nobody_answered_is_settled_by_the_next_change(
    stores: Stores, fate: Fate, is_open: bool
) -> None:
    owner = await stores.open(taken_over=False)
    assert await owner.publish(7) == [None] * 7
    if not is_open:
        await owner.log.close()
        owner = await stores.open(taken_over=False)
    before = await stores.ledger_ids()
    stores.doubtful.fates = [fate]
    with pytest.raises(UncertainStateError):
        await owner.log.delete_consumed(3)
    assert await stores.ledger_ids() == before, "nothing is deleted while the record may name it"
    assert owner.log.first_id == 4, "what may be gone is not promised any more"
    assert owner.log.has_closed, "retention comes back to it"
    assert await owner.publish(9) == [None] * 9
    await stores.check(owner)
    assert await owner.log.delete_consumed(7) == (3 if is_open else 4)
    await stores.check(owner)


@pytest.mark.parametrize("fate", Fate)
async def test_retention_comes_back_to_a_deletion_that_nobody_answered(stores: Stores, fate: Fate) -> None:
    owner = await stores.open(taken_over=False)
    await owner.publish(3)
    await owner.log.close()
    owner = await stores.open(taken_over=False)
    stores.doubtful.fates = [fate, fate]
    for _ in range(2):
        with pytest.raises(UncertainStateError):
            await owner.log.delete_consumed(3)
        assert owner.log.has_closed
    assert await owner.log.delete_consumed(3) == 3
    assert not owner.log.has_closed
    assert await stores.ledger_ids() == []
    assert await owner.publish(4) == [None] * 4
    await stores.check(owner)


@pytest.mark.parametrize("fate", Fate)
async def test_a_ledger_whose_range_nobody_answered_is_used_by_the_next_publish(stores: Stores, fate: Fate) -> None:
    owner = await stores.open(taken_over=False)
    await owner.publish(1)
    stores.doubtful.fates = [fate]
    assert await owner.publish(2) == [None] * 2  # The third message fills the ledger, so the log makes the next one.
    (refused,) = await owner.publish(1) if stores.doubtful.fates else [None]
    assert refused is None or refused.happened == "no"
    assert owner.listener.lost is None, "the topic stays"
    assert await owner.publish(5) == [None] * 5
    await stores.check(owner)
    await owner.log.close()
    assert await owner.log.end()
    following = await stores.open(taken_over=False)
    assert following.log.last_id == owner.log.last_id


async def test_a_ledger_that_the_record_may_name_is_not_deleted_at_the_end(stores: Stores) -> None:
    """The next owner would look for it, and never serve the topic."""
    options = replace(stores.store.options, ledger_changes_max=1)
    stores.store = replace(stores.store, options=options)
    owner = await stores.open(taken_over=False)
    stores.doubtful.fates = [Fate.APPLIED, Fate.APPLIED]
    (refused,) = await owner.publish(1)
    assert refused is not None
    outcomes: list[HedwigError | None] = []
    async with stores.store.ledger_turn():
        owner.log.publish(Message(b"m"), lambda _id, _remote, error: outcomes.append(error))
        for _ in range(3):
            await stores.record()  # By then the publish waits for its turn to make a ledger.
        assert not outcomes
        assert not await owner.log.end()
    await stores.store.tasks.settle()
    assert len(outcomes) == 1
    following = await stores.open(taken_over=True)
    assert await following.publish(4) == [None] * 4
    await stores.check(following)


async def test_a_refused_deletion_gives_the_topic_up_at_once(stores: Stores) -> None:
    owner = await stores.open(taken_over=False)
    await owner.publish(7)
    other = await stores.open(taken_over=True)
    before = await stores.ledger_ids()
    with pytest.raises(BadVersionError):
        await owner.log.delete_consumed(3)
    assert isinstance(owner.listener.lost, BadVersionError)
    assert await stores.ledger_ids() == before
    assert await other.publish(5) == [None] * 5
    await stores.check(other)


async def test_what_another_owner_wrote_is_not_taken_for_the_change_in_doubt(stores: Stores) -> None:
    """The content is the same. An owner that took its version over would write ledgers unknown to the other owner."""
    owner = await stores.open(taken_over=False)
    await owner.publish(7)
    await owner.log.close()
    owner = await stores.open(taken_over=False)
    stores.doubtful.fates = [Fate.LOST]
    with pytest.raises(UncertainStateError):
        await owner.log.delete_consumed(3)
    other = await stores.open(taken_over=True)
    owner.listener.is_claimed = False
    assert await other.log.delete_consumed(3) == 3
    assert owner.log.ranges == other.log.ranges
    with pytest.raises(UncertainStateError):
        await owner.log.delete_consumed(6)
    assert owner.listener.lost is not None
    (refused,) = await owner.publish(1)
    assert isinstance(refused, ServiceDownError)
    assert await other.publish(5) == [None] * 5
    await stores.check(other)


async def test_nothing_is_changed_after_the_end(stores: Stores) -> None:
    owner = await stores.open(taken_over=False)
    await owner.publish(7)
    await owner.log.close()
    before = await stores.record()
    assert await owner.log.end()
    with pytest.raises(ServiceDownError):
        await owner.log.delete_consumed(3)
    assert await stores.record() == before
    assert len(await stores.ledger_ids()) == 3


@pytest.mark.parametrize("fate", Fate)
async def test_the_end_settles_what_is_in_doubt_or_says_that_it_cannot(stores: Stores, fate: Fate) -> None:
    owner = await stores.open(taken_over=False)
    await owner.publish(7)
    stores.doubtful.fates = [fate, fate, fate]
    with pytest.raises(UncertainStateError):
        await owner.log.close()
    assert not await owner.log.end()
    assert not await owner.log.end()
    assert await owner.log.end()
    following = await stores.open(taken_over=False)
    assert following.log.ranges == owner.log.ranges
    assert await following.publish(5) == [None] * 5
    await stores.check(following)


# ------------------------------------------------------------------------------------------------------ in a hub


def topic_of(hub: Hub) -> OwnedTopic:
    topic = hub.topics.get(T)
    assert topic is not None
    return topic


async def record_of(hub: Hub) -> Versioned[LedgerRanges]:
    record = await hub.metadata.persistence.read(T)
    assert record is not None
    return record


async def is_claimed(hub: Hub) -> bool:
    return await hub.metadata.ownership.read(T) is not None


async def test_a_pass_that_began_before_a_release_changes_nothing_after_it(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.publish_many(T, *[b"m"] * 7)
    topic = topic_of(hub)
    await until(lambda: topic.log.is_idle, "no ledger is made")
    manager = hub.incarnation.subscriptions
    read, is_reading, go_on = manager.read_subscriptions, asyncio.Event(), asyncio.Event()

    async def slow(name: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[SubscriptionData]]]:
        rows = [row async for row in read(name)]
        if not is_reading.is_set():
            is_reading.set()
            await go_on.wait()
        for row in rows:
            yield row

    monkeypatch.setattr(manager, "read_subscriptions", slow)
    sweeping = asyncio.create_task(hub.retention.sweep())
    await asyncio.wait_for(is_reading.wait(), DEADLINE_S)
    # A new subscription now needs all messages. The running pass has not seen it.
    data = SubscriptionData(state=SubscriptionState(MessageSeqId(0)))
    await manager.create(T, SubscriberId(b"s"), data)
    await asyncio.wait_for(hub.topics.release(topic), DEADLINE_S)
    before = await record_of(hub)
    go_on.set()
    await asyncio.wait_for(sweeping, DEADLINE_S)
    assert await record_of(hub) == before
    await client.subscribed(T, b"s")
    assert await client.delivered(7) == [1, 2, 3, 4, 5, 6, 7]
    assert await client.publish_many(T, *[b"m"] * 7) == list(range(8, 15))
    assert hub.topics.released == 1, "the topic is not given up"


async def test_a_release_waits_for_the_change_under_way(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.publish_many(T, *[b"m"] * 7)
    topic = topic_of(hub)
    await until(lambda: topic.log.is_idle, "no ledger is made")
    write, writes, go_on = TablePersistenceManager.write, [], asyncio.Event()

    async def slow(manager: TablePersistenceManager, name: Topic, ranges: LedgerRanges, version: Version) -> Version:
        writes.append(ranges)
        if len(writes) == 1:
            await go_on.wait()
        return await write(manager, name, ranges, version)

    monkeypatch.setattr(TablePersistenceManager, "write", slow)
    sweeping = asyncio.create_task(hub.retention.sweep())
    await until(lambda: writes, "retention writes")
    hub.topics.give_up(topic, ServiceDownError("the test"))
    releasing = asyncio.create_task(hub.topics.release(topic))
    for _ in range(3):
        assert await is_claimed(hub)
    assert not releasing.done()
    go_on.set()
    await asyncio.wait_for(asyncio.gather(sweeping, releasing), DEADLINE_S)
    assert not await is_claimed(hub)
    assert await client.publish_many(T, *[b"m"] * 7) == list(range(8, 15))
    assert hub.topics.released == 1


async def test_a_topic_whose_ranges_are_in_doubt_is_taken_over(
    start_hub: StartHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub(ledger_messages_max=3)
    client = await connect(hub)
    await client.publish_many(T, *[b"m"] * 4)
    topic = topic_of(hub)
    await until(lambda: topic.log.is_idle, "no ledger is made")
    write = hub.metadata.persistence.write
    late: list[tuple[LedgerRanges, Version]] = []

    async def unanswered(_: object, _topic: Topic, ranges: LedgerRanges, version: Version) -> Version:
        late.append((ranges, version))
        raise UncertainStateError("the test lost the answer")

    with monkeypatch.context() as patch:
        patch.setattr(TablePersistenceManager, "write", unanswered)
        await asyncio.wait_for(hub.topics.release(topic), DEADLINE_S)
    assert await is_claimed(hub), "so that the next claim takes the topic over"
    await client.subscribed(T, b"s")
    assert len(late) == 2
    for ranges, version in late:
        with pytest.raises(MetadataError):
            await write(T, ranges, version)
    assert await client.publish_many(T, *[b"m"] * 7) == list(range(5, 12))
    await client.unsubscribe(T, b"s")
    await asyncio.wait_for(hub.topics.release(topic_of(hub)), DEADLINE_S)
    assert not await is_claimed(hub)
