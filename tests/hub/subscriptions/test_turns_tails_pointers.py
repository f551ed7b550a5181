"""The small parts of a hub alone: turns, messages in memory, consume pointers that lose a compare-and-set."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.clock import SystemClock
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.errors import MetadataUnavailableError, RecordTooLargeError, UncertainStateError
from hedwig.hub.logs.recent_messages import RecentMessages, Tail
from hedwig.hub.options.options import HubOptions
from hedwig.hub.subscriptions.pointers import Pointers
from hedwig.hub.topics.topic import OwnedTopic, Subscription, TopicState
from hedwig.metadata import MetadataStore, Operation, Outcome, format_metadata, open_metadata
from hedwig.model import (
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.versions import ANY, NEW, Version
from tests.hub.support.wire_client import DEADLINE_S, eventually

T, S = Topic(b"T"), SubscriberId(b"s")

# ---------------------------------------------------------------------------------------------------- turns


async def test_turns_of_one_key_come_in_order_and_others_do_not_wait() -> None:
    turns, order = KeyedLock(), list[str]()
    may_go = asyncio.Event()

    async def work(key: str, name: str) -> None:
        async with turns.turn(key):
            order.append(name)
            if key == "a":
                await may_go.wait()

    tasks = [asyncio.create_task(work("a", f"a{number}")) for number in range(3)]
    tasks.append(asyncio.create_task(work("b", "b")))
    await eventually(lambda: len(order) == 2, "one turn of each key")
    assert order == ["a0", "b"]
    assert turns.is_taken("a")
    assert not turns.is_taken("b")
    may_go.set()
    await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE_S)
    assert order == ["a0", "b", "a1", "a2"]
    assert not turns.is_taken("a")


@pytest.mark.parametrize("seed", range(10))
async def test_turns_survive_callers_that_leave_or_fail(seed: int) -> None:
    """Callers are cancelled while they wait, when they are called, or inside. Two never have a turn at once."""
    source, turns, inside = random.Random(seed), KeyedLock(), set[int]()

    async def work(number: int) -> None:
        async with turns.turn("k"):
            assert not inside
            inside.add(number)
            try:
                for _ in range(source.randrange(3)):
                    await asyncio.sleep(0)
                if source.random() < 0.2:
                    raise RuntimeError
            finally:
                inside.discard(number)

    tasks = []
    for number in range(40):
        tasks.append(asyncio.create_task(work(number)))
        if source.random() < 0.5:
            await asyncio.sleep(0)
        if source.random() < 0.5:
            source.choice(tasks).cancel()
    async with asyncio.timeout(DEADLINE_S):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        async with turns.turn("k"):
            pass
    assert not turns.is_taken("k")
    assert {type(outcome) for outcome in outcomes} <= {type(None), RuntimeError, asyncio.CancelledError}, outcomes


async def test_a_waiter_that_is_cancelled_as_the_holder_leaves_passes_nothing_on() -> None:
    """The waiter behind it has the turn by then, and a third must not have it as well."""
    turns, entered, may_go = KeyedLock(), list[str](), asyncio.Event()

    async def work(name: str) -> None:
        async with turns.turn("k"):
            entered.append(name)
            await may_go.wait()

    first, cancelled, second, third = (asyncio.create_task(work(name)) for name in "abcd")
    await eventually(lambda: entered == ["a"], "the first has the turn, and three wait")
    # This happens when the deadlines of both pass together.
    first.cancel()
    cancelled.cancel()
    await asyncio.wait([first, cancelled])
    await eventually(lambda: len(entered) > 1, "the next has the turn")
    for _ in range(10):
        await asyncio.sleep(0)
    assert entered == ["a", "c"]
    may_go.set()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(second, third)
    assert entered == ["a", "c", "d"]
    assert not turns.is_taken("k")


# ---------------------------------------------------------------------------------------------------- tails


@pytest.mark.parametrize("seed", range(6))
def test_tails_stay_within_their_memory_and_keep_the_newest_without_gap(seed: int) -> None:
    source, memory = random.Random(seed), RecentMessages(20_000)
    tails = [Tail(memory) for _ in range(4)]
    last = [0] * 4
    for _ in range(500):
        index = source.randrange(4)
        tail = tails[index]
        match source.choices(["put", "skip", "clear"], [90, 5, 2])[0]:
            case "put":
                last[index] += 1
                tail.put(last[index], b"%d " % last[index] * source.randrange(1, 60))
            case "skip":
                last[index] += source.randrange(1, 4)
            case _:
                tail.clear()
        assert 0 <= memory.bytes <= 20_000
        for each, newest in zip(tails, last, strict=True):
            if each.first is not None:
                present = [number for number in range(newest + 2) if each.get(number) is not None]
                assert present == list(range(each.first, each.first + len(present)))
                assert all((each.get(number) or b"").startswith(b"%d " % number) for number in present)
    for tail in tails:
        tail.clear()
    for number in range(1, 2000):
        tails[0].put(last[0] + 10 + number, b"x" * 1000)
    kept = [number for number in range(last[0] + 2100) if tails[0].get(number) is not None]
    assert 15 <= len(kept) <= 18, "what was cleared gives its room back"


def test_a_tail_without_memory_keeps_nothing() -> None:
    tail = Tail(RecentMessages(0))
    for number in range(1, 5):
        tail.put(number, b"m")
        assert tail.get(number) is None
    assert tail.first is None


# ------------------------------------------------------------------------------------------- consume pointers


class _Log:
    """The parts of a log that a subscription needs."""

    last_id = 1000

    def attach_listener(self, _: object) -> None:
        """Do nothing: the test publishes no messages here."""

    def forget_recent(self) -> None:
        """Do nothing: there are no recent messages here."""


class LossyManager:
    """The real manager. Its writes fail while `error` is set; if `is_applied`, after they took effect."""

    def __init__(self, store: MetadataStore) -> None:
        self._manager = store.subscriptions
        self.error: Exception | None = None
        self.is_applied = False

    async def apply(self, operations: list[Operation[SubscriptionData]]) -> list[Outcome[SubscriptionData]]:
        if self.error is None:
            return await self._manager.apply(operations)
        if self.is_applied:
            await self._manager.apply(operations)
        raise self.error


class Harness:
    """A topic in memory over a real store."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.manager = LossyManager(store)
        self.deleted: list[Subscription] = []
        self.turns = KeyedLock()
        log: Any = _Log()
        topics: Any = None
        self.topic = OwnedTopic(topics, T, Version(b"v"), log, 0)
        manager: Any = self.manager
        options = replace(HubOptions(), consume_interval=10, consume_flush_s=0.05)
        self.pointers = Pointers(options, manager, self.turns, SystemClock(), self.deleted.append)

    async def subscription(self, subscriber: bytes = S) -> Subscription:
        data = SubscriptionData(
            preferences=SubscriptionPreferences(message_bound=7), state=SubscriptionState(MessageSeqId(0))
        )
        version = await self.store.subscriptions.create(T, SubscriberId(subscriber), data)
        made = Subscription(self.topic, SubscriberId(subscriber), SubscriptionPreferences(), MessageSeqId(0), version)
        self.topic.keep(made)
        return made

    async def stored(self, subscriber: bytes = S) -> MessageSeqId | None:
        record = await self.store.subscriptions.read(T, SubscriberId(subscriber))
        if record is None:
            return None
        assert record.value.preferences == SubscriptionPreferences(message_bound=7), "never rewritten with the pointer"
        assert record.value.state is not None
        return record.value.state.consumed

    async def move(self, local: int) -> None:
        state = SubscriptionData(state=SubscriptionState(MessageSeqId(local)))
        await self.store.subscriptions.update(T, S, state, ANY)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield Harness(store)


def consume(harness: Harness, subscription: Subscription, local: int) -> None:
    assert subscription.consume(MessageSeqId(local, (RegionSeqId(b"east", local),)))
    harness.pointers.moved(subscription)


async def test_a_pointer_is_stored_with_its_remote_components(harness: Harness) -> None:
    subscription = await harness.subscription()
    consume(harness, subscription, 4)
    await harness.pointers.store_now(subscription)
    assert await harness.stored() == MessageSeqId(4, (RegionSeqId(b"east", 4),))
    assert not subscription.is_dirty
    assert harness.pointers.waiting == 0


@pytest.mark.parametrize(("theirs", "ours", "expected"), [(3, 5, 5), (8, 5, 8), (5, 5, 5)])
@pytest.mark.parametrize("way", ["store", "store_now"])
async def test_a_lost_compare_and_set_goes_on_from_the_further_pointer(
    harness: Harness, theirs: int, ours: int, expected: int, way: str
) -> None:
    subscription = await harness.subscription()
    await harness.move(theirs)
    consume(harness, subscription, ours)
    if way == "store":
        await harness.pointers.store([subscription])
        await harness.pointers.store([subscription])
    else:
        await harness.pointers.store_now(subscription)
    stored = await harness.stored()
    assert stored is not None
    assert stored.local == subscription.consumed == subscription.stored == expected
    assert not subscription.is_dirty


@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("way", ["store", "store_now"])
async def test_a_write_whose_answer_is_lost_is_done_once_more(harness: Harness, is_applied: bool, way: str) -> None:
    subscription = await harness.subscription()
    consume(harness, subscription, 5)
    harness.manager.error = UncertainStateError("lost") if is_applied else MetadataUnavailableError("refused")
    harness.manager.is_applied = is_applied
    if way == "store":
        await harness.pointers.store([subscription])
    else:
        with pytest.raises(MetadataUnavailableError):
            await harness.pointers.store_now(subscription)
    assert subscription.is_dirty
    consume(harness, subscription, 6)
    harness.manager.error = None
    await harness.pointers.store_now(subscription)
    stored = await harness.stored()
    assert stored is not None
    assert stored.local == 6
    assert not subscription.is_dirty


@pytest.mark.parametrize("way", ["store", "store_now"])
async def test_a_deleted_subscription_is_told_of_and_not_brought_back(harness: Harness, way: str) -> None:
    subscription = await harness.subscription()
    consume(harness, subscription, 5)
    await harness.store.subscriptions.delete(T, S, ANY)
    if way == "store":
        await harness.pointers.store([subscription])
    else:
        await harness.pointers.store_now(subscription)
    assert harness.deleted == [subscription]
    assert await harness.stored() is None
    assert harness.pointers.waiting == 0


@pytest.mark.parametrize("way", ["store", "store_now"])
async def test_nothing_is_stored_for_a_topic_that_was_released(harness: Harness, way: str) -> None:
    """The next owner may have moved the pointer back. A repeat of the refused write would put it forward again."""
    subscription = await harness.subscription()
    consume(harness, subscription, 5)
    await harness.move(2)
    harness.topic.state = TopicState.RELEASED
    for _ in range(2):
        await (harness.pointers.store([subscription]) if way == "store" else harness.pointers.store_now(subscription))
    assert (await harness.stored()) == MessageSeqId(2)
    await harness.pointers.flush()
    assert harness.pointers.waiting == 0


async def test_a_subscription_deleted_and_made_anew_is_not_mistaken_for_the_old_one(harness: Harness) -> None:
    subscription = await harness.subscription()
    consume(harness, subscription, 5)
    await harness.store.subscriptions.delete(T, S, ANY)
    data = SubscriptionData(
        preferences=SubscriptionPreferences(message_bound=7), state=SubscriptionState(MessageSeqId(9))
    )
    await harness.store.subscriptions.create(T, S, data)
    await harness.pointers.store_now(subscription)
    stored = await harness.stored()
    assert stored is not None
    assert stored.local == 9


async def test_two_of_the_same_subscription_do_not_wait_for_each_other(harness: Harness) -> None:
    """An outdated subscription and its successor both have a pointer to store, as after failed writes."""
    old = await harness.subscription()
    consume(harness, old, 3)
    new = Subscription(harness.topic, S, SubscriptionPreferences(), MessageSeqId(0), old.version)
    consume(harness, new, 5)
    async with asyncio.timeout(DEADLINE_S):
        await harness.pointers.store([old, new])
        await harness.pointers.store([new])
        await harness.pointers.store([new])
    stored = await harness.stored()
    assert stored is not None
    assert stored.local == 5
    assert not harness.turns.is_taken((T, S))


async def test_who_has_the_turn_is_not_disturbed(harness: Harness) -> None:
    subscription = await harness.subscription()
    consume(harness, subscription, 5)
    async with harness.turns.turn((T, S)):
        await harness.pointers.store([subscription])
        assert subscription.is_dirty
    await harness.pointers.store([subscription])
    assert not subscription.is_dirty


@pytest.mark.parametrize("way", ["in its turn", "with others"])
async def test_a_failing_pointer_is_not_kept_when_its_subscription_is_let_go(harness: Harness, way: str) -> None:
    """Otherwise the pointer would never be removed, and fail again at each flush."""
    await harness.subscription(b"stays")
    subscription = await harness.subscription()
    harness.manager.error = RecordTooLargeError("too large")
    async with harness.turns.turn((T, S)):
        consume(harness, subscription, 50)
        if way == "in its turn":
            await harness.pointers.flush()
            assert len(harness.pointers.tasks) == 1, "it waits"
        # The subscription is detached in this state when its pointer could not be stored either.
        harness.pointers.forget(subscription)
        harness.topic.drop(subscription)
    if way == "with others":
        await harness.pointers.store([subscription])
    async with asyncio.timeout(DEADLINE_S):
        await harness.pointers.tasks.settle()
    assert subscription.is_dirty
    assert harness.pointers.waiting == 0


async def test_many_pointers_are_stored_by_the_interval_and_by_the_time(harness: Harness) -> None:
    subscriptions = [await harness.subscription(b"%d" % number) for number in range(600)]
    running = asyncio.create_task(harness.pointers.run())
    try:
        for number, subscription in enumerate(subscriptions):
            consume(harness, subscription, 1 + number % 20)
        await eventually(lambda: not any(each.is_dirty for each in subscriptions), "all are stored")
        assert harness.pointers.waiting == 0
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert [(await harness.stored(b"%d" % number)).local for number in (0, 19, 599)] == [1, 20, 20]  # type: ignore[union-attr]


async def test_a_failed_flush_is_tried_again(harness: Harness) -> None:
    subscription = await harness.subscription()
    harness.manager.error = MetadataUnavailableError("refused")
    running = asyncio.create_task(harness.pointers.run())
    try:
        consume(harness, subscription, 50)
        await eventually(lambda: harness.pointers.waiting > 0, "it waits for the next flush")
        harness.manager.error = None
        await eventually(lambda: not subscription.is_dirty, "it is stored")
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert subscription.version != NEW
