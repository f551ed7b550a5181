"""Fixtures: those of the conformance suite, over each backend of ours in turn, and places for other tests."""

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest
from kazoo.protocol import connection as kazoo_connection

from hedwig.metadata.testing.fixtures import *  # noqa: F403
from hedwig.metadata.testing.place import Effort, Place
from tests.metadata.support.gateway import leave_to_long_runs
from tests.metadata.support.place import BACKENDS, KEPT_BACKENDS, BackendRow, Surroundings, as_parameters
from tests.servers import RunningServers

__all__: list[str] = []

# kazoo's thread draws from the global generator, whose state Hypothesis watches while a test runs.
kazoo_connection.random = Random()


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


@pytest.fixture(scope="session")
def new_place(backend: BackendRow, surroundings: Surroundings) -> Callable[[], Place]:
    """What chooses a place of the backend."""
    return lambda: backend.place(surroundings)


@pytest.fixture(scope="session")  # type: ignore[no-redef]
def effort(backend: BackendRow) -> Effort:
    """What may be asked of the backend."""
    return Effort(places_are_cheap=backend.places_are_cheap, examples=backend.examples, quick_pairs=backend.quick_pairs)


@pytest.fixture
def bare_place(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A place where nothing was laid out yet."""
    place = kept_backend.place(surroundings)
    yield place
    asyncio.run(place.drop())


@pytest.fixture  # type: ignore[no-redef]
def kept_place(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Place]:
    """A formatted store for one test alone, which outlives its clients."""
    with kept_backend.place(surroundings).formatted() as place:
        yield place
