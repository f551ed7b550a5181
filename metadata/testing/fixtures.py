"""Fixtures of the conformance suite: a store, a second client of it, and a probe. A conftest imports all of them.

The conftest adds `new_place`, which returns a function that chooses a place for one store and formats nothing there. It
also adds its own `effort`, if the usual one is too much for the backend.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Final

import pytest

from hedwig.metadata import Delete, MetadataStore, RecordKey, StoreOptions
from hedwig.metadata.testing.bulk_contents import Contents, fill, filled_contents
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, DOORS, Call, Door
from hedwig.metadata.testing.place import Effort, Place
from hedwig.metadata.testing.probe import Probe
from hedwig.versions import ANY

__all__ = [
    "clients",
    "door",
    "effort",
    "empty_place",
    "empty_store",
    "filled",
    "filled_place",
    "kept_place",
    "manager",
    "names",
    "other",
    "own_place",
    "place",
    "probe",
    "reused_place",
    "small_pages",
    "store",
]

_FEW_RECORDS: Final = 2000


@pytest.fixture(scope="session")
def effort() -> Effort:
    """How much the suite may ask of the backend."""
    return Effort()


@pytest.fixture(scope="module")
def place(new_place: Callable[[], Place]) -> Iterator[Place]:
    """A formatted store that the tests of one module share. Each test uses names of its own (see `names`)."""
    with new_place().formatted() as place:
        yield place


@pytest.fixture
def own_place(new_place: Callable[[], Place]) -> Iterator[Place]:
    """A formatted store for one test alone, even if that is expensive."""
    with new_place().formatted() as place:
        yield place


@pytest.fixture
def kept_place(own_place: Place) -> Place:
    """A formatted store for one test alone, which outlives its clients."""
    if not own_place.kept:
        pytest.skip("a store of this backend is gone with its last client")
    return own_place


@pytest.fixture(scope="module")
def reused_place(effort: Effort, new_place: Callable[[], Place]) -> Iterator[Place | None]:
    """The formatted store that the tests of one module use one after another, if many stores would cost too much."""
    if effort.places_are_cheap:
        yield None
        return
    with new_place().formatted() as place:
        yield place


@pytest.fixture
async def empty_place(new_place: Callable[[], Place], reused_place: Place | None) -> Place:
    """A formatted store without a record, for a test that checks all records of the store."""
    if reused_place is None:
        place = new_place()
        await place.format()
        return place
    async with await reused_place.open() as store:
        await _empty(store)
        left = sum((await store.count()).values())
    if left:
        await reused_place.format(wipe=True)
    return reused_place


@pytest.fixture(scope="module")
def filled_place(new_place: Callable[[], Place]) -> Iterator[Place]:
    """A store that holds the records of `fill`, for the tests of one module, which only read it."""
    with new_place().formatted() as place:
        if place.kept:
            asyncio.run(_fill(place))
        yield place


async def _fill(place: Place) -> None:
    async with await place.open() as store:
        await fill(store)


@pytest.fixture
async def filled(clients: Clients, filled_place: Place) -> tuple[MetadataStore, Contents]:
    """A client with pages of seven records, for a store that the test only reads; and the records of that store."""
    store = await clients.open(filled_place, StoreOptions(page_rows=7))
    return store, filled_contents() if filled_place.kept else await fill(store)


async def _empty(store: MetadataStore) -> None:
    """Delete the records one by one if they are few, which is far quicker than formatting the store anew."""
    if sum((await store.count()).values()) > _FEW_RECORDS:
        return
    for call in CALLS:
        topics = [topic async for topic in call.topics(store)]
        if call.kind.has_subscriber:
            listings = [(topic, store.subscriptions.read_subscriptions(topic)) for topic in topics]
            keys = [RecordKey(topic, name) for topic, listing in listings async for name, _ in listing]
        else:
            keys = [RecordKey(topic) for topic in topics]
        await call.apply(store, [Delete(key, ANY) for key in keys])


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    """The object that opens clients and probes for this test."""
    async with AsyncExitStack() as stack:
        yield Clients(stack)


@pytest.fixture
async def store(clients: Clients, place: Place) -> MetadataStore:
    """A client of the module's store."""
    return await clients.open(place)


@pytest.fixture
async def other(clients: Clients, place: Place, store: MetadataStore) -> MetadataStore:
    """A second client of the module's store."""
    return await clients.open(place)


@pytest.fixture
async def empty_store(clients: Clients, empty_place: Place) -> MetadataStore:
    """A client of a store without a record."""
    return await clients.open(empty_place)


@pytest.fixture
async def small_pages(clients: Clients, empty_place: Place) -> MetadataStore:
    """A client with pages of seven records, for a store without a record."""
    return await clients.open(empty_place, StoreOptions(page_rows=7))


@pytest.fixture
async def probe(clients: Clients, place: Place, store: MetadataStore) -> Probe:
    """A probe of the module's store."""
    return await clients.probe(place, store)


@pytest.fixture(params=CALLS, ids=lambda call: call.label)
def manager(request: pytest.FixtureRequest) -> Call:
    """Each manager in turn, with its records."""
    chosen: Call = request.param
    return chosen


@pytest.fixture(params=DOORS, ids=lambda door: door.label)
def door(request: pytest.FixtureRequest) -> Door:
    """Each way to write a record in turn."""
    chosen: Door = request.param
    return chosen


_numbers: Iterator[int] = iter(range(10**9))


@pytest.fixture
def names() -> Names:
    """The function that turns short names into ones that no other test uses."""
    prefix = b"n%d-" % next(_numbers)
    return lambda name: prefix + name
