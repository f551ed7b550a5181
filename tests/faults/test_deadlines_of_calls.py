"""Prove that one call of the metadata store has one deadline, however many requests it takes.

Property: every operation ends by its deadline.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, Read, RecordKey, StoreOptions, Write, open_metadata
from hedwig.metadata.contract.write_gate import WriteGate
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS
from hedwig.metadata.testing.subject import Subject
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY, NEW, Version
from tests.faults.support.network import Networked
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step
from tests.metadata.support.backends import BACKENDS, Surroundings

THROUGH_THE_GATEWAY: Final[tuple[str, ...]] = ("test_operations_that_come_together_have_one_deadline",)

TIMEOUT_S: Final = 6.0
LATE_S: Final = 1.4 * TIMEOUT_S
"""Two steps of 0.75 of the timeout take longer. A call that ends in time takes less, even on a busy machine."""
PAGES: Final = 8


class LeapingClock(SystemClock):
    """A clock that a test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@asynccontextmanager
async def _behind(
    networked: Networked, subject: Subject, options: StoreOptions
) -> AsyncIterator[tuple[Proxy, MetadataStore]]:
    async with (
        networked.proxy(subject, lambda _: PASS) as proxy,
        await networked.behind(proxy, subject).open(options) as store,
    ):
        yield proxy, store


def _reads_late_and_writes_never(writes: str) -> Callable[[Exchange], Step]:
    """Return a plan that answers no request for 0.75 of the timeout, and never a write."""
    until = time.monotonic() + 0.75 * TIMEOUT_S

    def plan(exchange: Exchange) -> Step:
        return Step(Action.CUT_REQUEST) if exchange.name == writes or time.monotonic() < until else PASS

    return plan


@pytest.mark.parametrize("verb", ["write", pytest.param("delete", marks=pytest.mark.full)])
async def test_write_with_any_has_one_deadline_for_all_its_steps(
    verb: str, networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Let the look at the record take 0.75 of the timeout, and the following write as long as it may."""
    door = CALLS[1]
    key = door.key(names(f"any-{verb}".encode()))
    await door.write(await clients.open(networked_subject), key, door.value(1), NEW)
    options = StoreOptions(operation_timeout_s=TIMEOUT_S)
    async with _behind(networked, networked_subject, options) as (proxy, store):
        await door.read(store, key)
        proxy.plan = _reads_late_and_writes_never(networked.write)
        begun_at = time.monotonic()
        with pytest.raises(MetadataUnavailableError):
            await (door.write(store, key, door.value(2), ANY) if verb == "write" else door.delete(store, key, ANY))
        assert time.monotonic() - begun_at < LATE_S


async def _fill(store: MetadataStore, topic: Topic) -> None:
    for number in range(PAGES):
        await store.subscriptions.create(topic, SubscriberId(b"%d" % number), samples.subscription(number))


async def _listed(store: MetadataStore, topic: Topic) -> int:
    return len([subscriber async for subscriber, _ in store.subscriptions.read_subscriptions(topic)])


@pytest.mark.parametrize("call", ["read", pytest.param("count", marks=pytest.mark.full)])
async def test_listing_of_a_topic_has_one_deadline_for_all_its_pages(
    call: str, networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Let each page take a quarter of the timeout. ZooKeeper counts without pages."""
    topic = Topic(names(b"listed"))
    await _fill(await clients.open(networked_subject), topic)
    options = StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1)
    async with _behind(networked, networked_subject, options) as (proxy, store):
        assert await _listed(store, topic) == PAGES
        proxy.plan = lambda _: Step(Action.DELAY_REPLY, seconds=TIMEOUT_S / 4)
        begun_at = time.monotonic()
        if call == "count" and networked.label == "zookeeper":
            assert await store.subscriptions.count_subscriptions(topic) == PAGES
        else:
            asked = _listed(store, topic) if call == "read" else store.subscriptions.count_subscriptions(topic)
            with pytest.raises(MetadataUnavailableError):
                await asked
        assert time.monotonic() - begun_at < LATE_S
        proxy.plan = lambda _: PASS


async def test_listing_of_a_topic_is_not_charged_for_the_time_of_its_caller(
    subject: Subject, clients: Clients, names: Names
) -> None:
    clock = LeapingClock()
    store = await clients.open(subject, StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1, clock=clock))
    topic = Topic(names(b"slow caller"))
    await _fill(store, topic)
    listed = 0
    async for _ in store.subscriptions.read_subscriptions(topic):
        listed += 1
        clock.ahead_s += TIMEOUT_S
    assert listed == PAGES


async def test_listing_in_sqlite_has_one_deadline_for_all_its_pages(
    surroundings: Surroundings, clients: Clients, names: Names
) -> None:
    """Let each page wait for another reader, for 0.75 of the timeout."""
    subject = next(row for row in BACKENDS if row.label == "sqlite").subject(surroundings)
    await subject.format()
    clock = LeapingClock()
    store = await clients.open(subject, StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1, clock=clock))
    topic = Topic(names(b"listed"))
    await _fill(store, topic)
    thread = store._backend._reader  # type: ignore[attr-defined]

    listing = aiter(store.subscriptions.read_subscriptions(topic))

    async def next_page() -> None:
        await anext(listing)

    async def wait_for_a_page() -> None:
        free = threading.Event()
        other = asyncio.create_task(thread.run("read on", lambda _: free.wait()))
        page = asyncio.create_task(next_page())
        await asyncio.sleep(0)
        clock.ahead_s += 0.75 * TIMEOUT_S
        free.set()
        await other
        await page

    await wait_for_a_page()
    await wait_for_a_page()
    with pytest.raises(MetadataUnavailableError):
        await wait_for_a_page()


@asynccontextmanager
async def _sqlite_with_a_leaping_clock(
    surroundings: Surroundings, *, gather: bool = False
) -> AsyncIterator[tuple[LeapingClock, MetadataStore]]:
    subject = next(row for row in BACKENDS if row.label == "sqlite").subject(surroundings)
    await subject.format()
    clock = LeapingClock()
    options = StoreOptions(operation_timeout_s=TIMEOUT_S, clock=clock, gather=gather)
    async with await open_metadata(subject.url, options) as store:
        yield clock, store


@asynccontextmanager
async def _busy_writer(store: MetadataStore) -> AsyncIterator[None]:
    """Keep SQLite's only writer busy until the end of the block."""
    free, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(_: Any) -> None:
        loop.call_soon_threadsafe(begun.set)
        free.wait()

    other = asyncio.create_task(store._backend.writer.run("work on", work))  # type: ignore[attr-defined]
    try:
        await begun.wait()
        yield
    finally:
        free.set()
        await other


async def test_operations_that_come_together_in_sqlite_have_one_deadline(
    surroundings: Surroundings, names: Names
) -> None:
    """Let the timeout pass while the first 512 operations wait for another writer."""
    async with _sqlite_with_a_leaping_clock(surroundings) as (clock, store):
        topics = [Topic(names(b"%d" % number)) for number in range(600)]
        writes = [Write(RecordKey(topic), samples.ranges(1), NEW) for topic in topics]
        async with _busy_writer(store):
            applied = asyncio.create_task(store.persistence.apply(writes))
            await asyncio.sleep(0)
            clock.ahead_s += TIMEOUT_S + len(writes)
        outcomes = await applied
        assert [type(outcome.error) for outcome in outcomes[:512]] == [type(None)] * 512
        assert [type(outcome.error) for outcome in outcomes[512:]] == [MetadataUnavailableError] * 88
        reads = await store.persistence.apply([Read(RecordKey(topic)) for topic in topics])
        assert sum(outcome.record is not None for outcome in reads) == 512


async def test_operation_that_waits_to_be_gathered_has_one_deadline(surroundings: Surroundings, names: Names) -> None:
    """Let the timeout pass with the most operations in flight: those that wait behind them surely were not done."""
    async with _sqlite_with_a_leaping_clock(surroundings, gather=True) as (clock, store):

        async def write(number: int) -> Version:
            topic = Topic(names(b"%d" % number))
            return await store.persistence.write(topic, samples.ranges(1), NEW)

        writes: list[asyncio.Task[Version]] = []
        async with _busy_writer(store):
            for number in range(20):
                writes.append(asyncio.create_task(write(number)))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                clock.ahead_s += TIMEOUT_S / 1000
            clock.ahead_s += TIMEOUT_S
        done = await asyncio.gather(*writes, return_exceptions=True)
        failed = [type(each) for each in done if isinstance(each, BaseException)]
        assert failed == [MetadataUnavailableError] * len(failed)
        assert 0 < len(failed) < 20
        for number, outcome in enumerate(done):
            record = await store.persistence.read(Topic(names(b"%d" % number)))
            assert (record is None) == isinstance(outcome, MetadataUnavailableError)


async def test_operations_that_come_together_have_one_deadline(
    networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Let each request take a quarter of the timeout; operations that are not sent as one wait for each other."""
    door = CALLS[1]
    keys = [door.key(names(b"together-%d" % number)) for number in range(PAGES)]
    direct = await clients.open(networked_subject)
    versions = [await door.write(direct, key, door.value(1), NEW) for key in keys]
    options = StoreOptions(operation_timeout_s=TIMEOUT_S, in_flight_max=1)
    async with _behind(networked, networked_subject, options) as (proxy, store):
        await door.read(store, keys[0])
        proxy.plan = lambda _: Step(Action.DELAY_REPLY, seconds=TIMEOUT_S / 4)
        begun_at = time.monotonic()
        changes = [Write(key, door.value(2), version) for key, version in zip(keys, versions, strict=True)]
        outcomes: list[Any] = await door.manager(store).apply(changes)
        assert time.monotonic() - begun_at < LATE_S
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        assert all(isinstance(error, MetadataUnavailableError) for error in failed)
        if networked.label == "zookeeper":
            assert 0 < len(failed) < PAGES
        proxy.plan = lambda _: PASS


async def test_write_that_waits_for_a_gate_has_one_deadline(surroundings: Surroundings, names: Names) -> None:
    """Let the timeout pass while it is not known yet whether the metadata are frozen."""
    subject = next(row for row in BACKENDS if row.label == "sqlite").subject(surroundings)
    await subject.format()
    clock = LeapingClock()
    gate = WriteGate(clock, TIMEOUT_S)
    async with await open_metadata(
        subject.url, StoreOptions(operation_timeout_s=TIMEOUT_S, clock=clock, gate=gate)
    ) as store:
        topic = Topic(names(b"gated"))
        gate.hold()
        write = asyncio.create_task(store.persistence.write(topic, samples.ranges(1), NEW))
        await asyncio.sleep(0)
        clock.ahead_s += TIMEOUT_S
        gate.open()
        with pytest.raises(MetadataUnavailableError):
            await write
        assert await store.persistence.read(topic) is None
