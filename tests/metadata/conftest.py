"""Fixtures of the conformance suite, which run over each of our backends, and stores for the other tests."""

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest
from kazoo.protocol import connection as kazoo_connection

from hedwig.metadata.testing.fixtures import *  # noqa: F403
from hedwig.metadata.testing.subject import Effort, Subject
from tests.metadata.support.backends import BACKENDS, KEPT_BACKENDS, BackendRow, Surroundings, as_parameters
from tests.metadata.support.gateway import leave_to_long_runs
from tests.support.servers import RunningServers

__all__: list[str] = []

# kazoo's thread draws from the global random generator. Hypothesis watches its state while a test runs.
kazoo_connection.random = Random()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the slow tests through the gateway to long runs."""
    leave_to_long_runs(items)


@pytest.fixture(scope="session")
def surroundings(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    """Return the servers of the run, and a directory for files."""
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
def new_subject(backend: BackendRow, surroundings: Surroundings) -> Callable[[], Subject]:
    """Return a function that chooses a store of the backend."""
    return lambda: backend.subject(surroundings)


@pytest.fixture(scope="session")  # type: ignore[no-redef]
def effort(backend: BackendRow) -> Effort:
    """Return how much a test may ask of the backend."""
    return Effort(stores_are_cheap=backend.stores_are_cheap, examples=backend.examples, quick_pairs=backend.quick_pairs)


@pytest.fixture
def bare_subject(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Subject]:
    """Return a store that was never formatted."""
    subject = kept_backend.subject(surroundings)
    yield subject
    asyncio.run(subject.drop())


@pytest.fixture  # type: ignore[no-redef]
def kept_subject(kept_backend: BackendRow, surroundings: Surroundings) -> Iterator[Subject]:
    """Return a formatted store for this test only, which outlives its clients."""
    with kept_backend.subject(surroundings).formatted() as subject:
        yield subject
