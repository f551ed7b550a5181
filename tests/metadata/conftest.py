"""Fixtures of the conformance suite: a store over each backend in turn, a second client of it, and a probe."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from random import Random
from typing import Final

import pytest
from kazoo.protocol import connection as kazoo_connection

from hedwig.metadata import Delete, MetadataStore, RecordKey, StoreOptions
from hedwig.versions import ANY
from tests.metadata.support.bulk_contents import Contents, fill, filled_contents
from tests.metadata.support.clients import Clients, Names
from tests.metadata.support.doors import CALLS, DOORS, Call, Door
from tests.metadata.support.gateway import leave_to_long_runs
from tests.metadata.support.place import BACKENDS, KEPT_BACKENDS, BackendRow, Place, Surroundings, as_parameters
from tests.metadata.support.probe import Probe
from tests.servers import RunningServers

__all__: list[str] = []

# kazoo's thread draws from the global generator, whose state Hypothesis watches while a test runs.
kazoo_connection.random = Random()

FEW_RECORDS: Final = 2000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to long runs what is long through a gateway."""
    leave_to_long_runs(items)


@pytest.fixture(scope="session")
def surroundings(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    """The servers of the run, and a directory for files."""
    return Surroundings(servers, tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session", params=as_parameters(BACKENDS))
def backend(request: pytest.FixtureRequest) -> BackendRow:
    """Each backend in turn."""
    row: BackendRow = request.param
    return row


@pytest.fixture(scope="session", params=as_parameters(KEPT_BACKENDS))
def kept_backend(request: pytest.FixtureRequest) -> BackendRow:
    """Each backend whose stores outlive the last client."""
    row: BackendRow = request.param
    return row


@pytest.fixture(scope="module")
def place(backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A formatted store that the tests of one module share; each keeps to names of its own (see `names`)."""
    with backend.place(surroundings).formatted() as place:
        yield place


@pytest.fixture
def own_place(backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A formatted store for one test alone, whatever that costs."""
    with backend.place(surroundings).formatted() as place:
        yield place


@pytest.fixture(scope="module")
def reused_place(backend: BackendRow, surroundings: Surroundings) -> Iterator[Place | None]:
    """The formatted store that the tests of one module use after each other where many would cost too much."""
    if backend.places_are_cheap:
        yield None
        return
    with backend.place(surroundings).formatted() as place:
        yield place


@pytest.fixture
async def empty_place(backend: BackendRow, surroundings: Surroundings, reused_place: Place | None) -> Place:
    """A formatted store without a record, for a test that says what all of its records are."""
    if reused_place is None:
        place = backend.place(surroundings)
        await place.format()
        return place
    async with await reused_place.open() as store:
        await _empty(store)
        left = sum((await store.count()).values())
    if left:
        await reused_place.format(wipe=True)
    return reused_place


@pytest.fixture(scope="module")
def filled_place(backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A store that holds what `fill` stores, for the tests of one module, which only read it."""
    with backend.place(surroundings).formatted() as place:
        if place.kept:
            asyncio.run(_fill(place))
        yield place


async def _fill(place: Place) -> None:
    async with await place.open() as store:
        await fill(store)


@pytest.fixture
async def filled(clients: Clients, filled_place: Place) -> tuple[MetadataStore, Contents]:
    """A client, that asks for seven records at a time, of a store that a test only reads, and what that holds."""
    store = await clients.open(filled_place, StoreOptions(page_rows=7))
    return store, filled_contents() if filled_place.kept else await fill(store)


async def _empty(store: MetadataStore) -> None:
    """Delete few records one by one, which is far quicker than to lay everything out anew."""
    if sum((await store.count()).values()) > FEW_RECORDS:
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
def bare_place(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A place where nothing was laid out yet."""
    place = kept_backend.place(surroundings)
    yield place
    asyncio.run(place.drop())


@pytest.fixture
def kept_place(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A formatted store for one test alone, which outlives its clients."""
    with kept_backend.place(surroundings).formatted() as place:
        yield place


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    """What opens clients and probes for this test."""
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
    """Make names that no other test uses, from short ones."""
    prefix = b"n%d-" % next(_numbers)
    return lambda name: prefix + name
