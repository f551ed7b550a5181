"""Fixtures of the fault tests: seeds, sizes, stores over each backend, and servers that are healed afterwards."""

import itertools
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from hedwig.cli.dev import ServerState
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.network import NETWORKED, Networked
from tests.faults.support.sickbay import heal
from tests.metadata.support.backends import (
    KEPT_BACKENDS,
    BackendRow,
    HBaseSubject,
    Surroundings,
    as_parameters,
    marks_of,
    servers_of,
)
from tests.metadata.support.gateway import leave_to_long_runs
from tests.support.servers import RunningServers

__all__: list[str] = []

SEED_VARIABLE = "HEDWIG_FAULT_SEED"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that take long through a gateway as tests of long runs."""
    leave_to_long_runs(items)


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run's faults: that of the environment, else a new one."""
    return int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(10**9))


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """The source of this test's faults; a failed test shows how to get the same ones again."""
    print(f"repeat with {SEED_VARIABLE}={seed}")
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture(scope="session")
def surroundings(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    """The servers of the run, and a directory for files."""
    return Surroundings(servers, tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session", params=as_parameters(KEPT_BACKENDS))
def backend(request: pytest.FixtureRequest) -> BackendRow:
    """Each backend that several processes can share, in turn."""
    row: BackendRow = request.param
    return row


@pytest.fixture(scope="module")
def subject(backend: BackendRow, surroundings: Surroundings) -> Iterator[Subject]:
    """A formatted store that the tests of one module share."""
    with backend.subject(surroundings).formatted() as subject:
        yield subject


@pytest.fixture(
    scope="session",
    params=[pytest.param(networked, id=networked.label, marks=marks_of(networked.row)) for networked in NETWORKED],
)
def networked(request: pytest.FixtureRequest) -> Networked:
    """Each backend that is reached over a network, in turn."""
    chosen: Networked = request.param
    return chosen


@pytest.fixture(scope="module")
def networked_subject(networked: Networked, surroundings: Surroundings) -> Iterator[Subject]:
    """A formatted store that the tests of one module share, on a server.

    It has no index of subscribers: the tests count the messages of a write, and with an index it is two.
    """
    subject = networked.row.subject(surroundings)
    if isinstance(subject, HBaseSubject):
        subject = replace(subject, is_indexed=False)
    with subject.formatted():
        yield subject


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    """The opener of clients and probes for this test."""
    async with AsyncExitStack() as stack:
        yield Clients(stack)


@pytest.fixture
def faulty_servers(surroundings: Surroundings, request: pytest.FixtureRequest) -> Iterator[RunningServers]:
    """The servers of the test's backend, for a test that harms them; they are healed afterwards."""
    servers = surroundings.servers
    if "networked" in request.fixturenames:
        servers = servers_of(request.getfixturevalue("networked").row, servers)
    # A region server that was paused ends once it learns that its session is over, perhaps after it was healed.
    if any(server.state is ServerState.DEAD for server in servers.launcher.status()):
        heal(servers.launcher)
    try:
        yield servers
    finally:
        heal(servers.launcher)


_numbers: Iterator[int] = itertools.count()


@pytest.fixture
def names() -> Names:
    """Make names that no other test uses, from short names."""
    prefix = b"f%d-" % next(_numbers)
    return lambda name: prefix + name
