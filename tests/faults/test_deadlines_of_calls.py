"""Prove that one call of the metadata has one deadline, however many requests it takes.

Property: every operation ends by its deadline.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import MetadataUnavailableError
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY, NEW
from metadata import MetadataStore, StoreOptions
from tests.faults.network import Networked
from tests.faults.proxy import PASS, Action, Exchange, Proxy, Step
from tests.metadata import samples
from tests.metadata.clients import Clients, Names
from tests.metadata.doors import CALLS
from tests.metadata.place import BACKENDS, Place, Surroundings

TIMEOUT_S: Final = 6.0
LATE_S: Final = 1.4 * TIMEOUT_S
"""Two steps of 0.75 of the time take longer, and a call that ends in time does not, on a busy machine either."""
PAGES: Final = 8


class LeapingClock(SystemClock):
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@asynccontextmanager
async def _behind(
    networked: Networked, place: Place, options: StoreOptions
) -> AsyncIterator[tuple[Proxy, MetadataStore]]:
    async with (
        networked.proxy(place, lambda _: PASS) as proxy,
        await networked.behind(proxy, place).open(options) as store,
    ):
        yield proxy, store


def _reads_late_and_writes_never(writes: str) -> Callable[[Exchange], Step]:
    """Return a plan by which nothing is answered for a good part of the time, and a write never."""
    until = time.monotonic() + 0.75 * TIMEOUT_S

    def plan(exchange: Exchange) -> Step:
        return Step(Action.CUT_REQUEST) if exchange.name == writes or time.monotonic() < until else PASS

    return plan


@pytest.mark.parametrize("verb", ["write", "delete"])
async def test_write_with_any_has_one_deadline_for_all_its_steps(
    verb: str, networked: Networked, networked_place: Place, clients: Clients, names: Names
) -> None:
    """Let the look at the record take 0.75 of the time, and the write that follows as long as it may."""
    door = CALLS[1]
    key = door.key(names(f"any-{verb}".encode()))
    await door.write(await clients.open(networked_place), key, door.value(1), NEW)
    options = StoreOptions(operation_timeout_s=TIMEOUT_S)
    async with _behind(networked, networked_place, options) as (proxy, store):
        await door.read(store, key)
        proxy.plan = _reads_late_and_writes_never(networked.write)
        begun_at = time.monotonic()
        with pytest.raises(MetadataUnavailableError):
            await (door.write(store, key, door.value(2), ANY) if verb == "write" else door.delete(store, key, ANY))
        assert time.monotonic() - begun_at < LATE_S


async def _fill(store: MetadataStore, topic: Topic) -> None:
    for number in range(PAGES):
        await store.subscriptions.create_subscription_data(
            topic, SubscriberId(b"%d" % number), samples.subscription(number)
        )


async def _listed(store: MetadataStore, topic: Topic) -> int:
    return len([subscriber async for subscriber, _ in store.subscriptions.read_subscriptions(topic)])


@pytest.mark.parametrize("call", ["read", "count"])
async def test_listing_of_a_topic_has_one_deadline_for_all_its_pages(
    call: str, networked: Networked, networked_place: Place, clients: Clients, names: Names
) -> None:
    """Let each page take a quarter of the time. ZooKeeper counts without pages."""
    topic = Topic(names(b"listed"))
    await _fill(await clients.open(networked_place), topic)
    options = StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1)
    async with _behind(networked, networked_place, options) as (proxy, store):
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
    place: Place, clients: Clients, names: Names
) -> None:
    clock = LeapingClock()
    store = await clients.open(place, StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1, clock=clock))
    topic = Topic(names(b"slow caller"))
    await _fill(store, topic)
    found = 0
    async for _ in store.subscriptions.read_subscriptions(topic):
        found += 1
        clock.ahead_s += TIMEOUT_S
    assert found == PAGES


async def test_listing_in_sqlite_has_one_deadline_for_all_its_pages(
    surroundings: Surroundings, clients: Clients, names: Names
) -> None:
    """Let each page wait for another reader, for 0.75 of the time."""
    place = next(row for row in BACKENDS if row.label == "sqlite").place(surroundings)
    await place.format()
    clock = LeapingClock()
    store = await clients.open(place, StoreOptions(operation_timeout_s=TIMEOUT_S, page_rows=1, clock=clock))
    topic = Topic(names(b"listed"))
    await _fill(store, topic)
    lane = store._backend._reader  # type: ignore[attr-defined]

    listing = aiter(store.subscriptions.read_subscriptions(topic))

    async def next_page() -> None:
        await anext(listing)

    async def wait_for_a_page() -> None:
        free = threading.Event()
        other = asyncio.create_task(lane.run("read on", lambda _: free.wait()))
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
