"""Fixtures of the conformance suite: a store, a second client of it, and a probe. A conftest imports all of them.

The conftest adds `new_subject`, which returns a function that chooses a store and formats nothing yet. It
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
from hedwig.metadata.testing.probe import Probe
from hedwig.metadata.testing.subject import Effort, Subject
from hedwig.versions import ANY

__all__ = [
    "clients",
    "door",
    "effort",
    "empty_store",
    "empty_subject",
    "filled",
    "filled_subject",
    "kept_subject",
    "manager",
    "names",
    "other",
    "own_subject",
    "probe",
    "reused_subject",
    "small_pages",
    "store",
    "subject",
]

_FEW_RECORDS: Final = 2000


@pytest.fixture(scope="session")
def effort() -> Effort:
    """How much the suite may ask of the backend."""
    return Effort()


@pytest.fixture(scope="module")
def subject(new_subject: Callable[[], Subject]) -> Iterator[Subject]:
    """A formatted store that the tests of one module share. Each test uses names of its own (see `names`)."""
    with new_subject().formatted() as subject:
        yield subject


@pytest.fixture
def own_subject(new_subject: Callable[[], Subject]) -> Iterator[Subject]:
    """A formatted store for one test alone, even if that is expensive."""
    with new_subject().formatted() as subject:
        yield subject


@pytest.fixture
def kept_subject(own_subject: Subject) -> Subject:
    """A formatted store for one test alone, which outlives its clients."""
    if not own_subject.kept:
        pytest.skip("a store of this backend is gone with its last client")
    return own_subject


@pytest.fixture(scope="module")
def reused_subject(effort: Effort, new_subject: Callable[[], Subject]) -> Iterator[Subject | None]:
    """The formatted store that the tests of one module use one after another, if many stores would cost too much."""
    if effort.stores_are_cheap:
        yield None
        return
    with new_subject().formatted() as subject:
        yield subject


@pytest.fixture
async def empty_subject(new_subject: Callable[[], Subject], reused_subject: Subject | None) -> Subject:
    """A formatted store without a record, for a test that checks all records of the store."""
    if reused_subject is None:
        subject = new_subject()
        await subject.format()
        return subject
    async with await reused_subject.open() as store:
        await _empty(store)
        left = sum((await store.count()).values())
    if left:
        await reused_subject.format(wipe=True)
    return reused_subject


@pytest.fixture(scope="module")
def filled_subject(new_subject: Callable[[], Subject]) -> Iterator[Subject]:
    """A store that holds the records of `fill`, for the tests of one module, which only read it."""
    with new_subject().formatted() as subject:
        if subject.kept:
            asyncio.run(_fill(subject))
        yield subject


async def _fill(subject: Subject) -> None:
    async with await subject.open() as store:
        await fill(store)


@pytest.fixture
async def filled(clients: Clients, filled_subject: Subject) -> tuple[MetadataStore, Contents]:
    """A client with pages of seven records, for a store that the test only reads; and the records of that store."""
    store = await clients.open(filled_subject, StoreOptions(page_rows=7))
    return store, filled_contents() if filled_subject.kept else await fill(store)


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
async def store(clients: Clients, subject: Subject) -> MetadataStore:
    """A client of the module's store."""
    return await clients.open(subject)


@pytest.fixture
async def other(clients: Clients, subject: Subject, store: MetadataStore) -> MetadataStore:
    """A second client of the module's store."""
    return await clients.open(subject)


@pytest.fixture
async def empty_store(clients: Clients, empty_subject: Subject) -> MetadataStore:
    """A client of a store without a record."""
    return await clients.open(empty_subject)


@pytest.fixture
async def small_pages(clients: Clients, empty_subject: Subject) -> MetadataStore:
    """A client with pages of seven records, for a store without a record."""
    return await clients.open(empty_subject, StoreOptions(page_rows=7))


@pytest.fixture
async def probe(clients: Clients, subject: Subject, store: MetadataStore) -> Probe:
    """A probe of the module's store."""
    return await clients.probe(subject, store)


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
