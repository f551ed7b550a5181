"""Fixtures: one deployment for all tests of this folder, in which both hubs run when a test begins."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver, java_client_driver
from tests.java_hedwig.together.support.deployment import Deployment
from tests.java_hedwig.together.support.members import Member

__all__ = ["ConnectJava"]

ConnectJava: TypeAlias = Callable[[Member], JavaClient]
"""Opens a client of the original library with the given default hub."""

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The deployment, for the whole test run."""
    with Deployment(tmp_path_factory.mktemp("together")) as deployment:
        yield deployment


@pytest.fixture
def deployment(running: Deployment) -> Deployment:
    """The deployment, with both hubs."""
    running.restore()
    return running


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClientDriver]:
    """The process that runs all Java clients."""
    with java_client_driver(tmp_path_factory.mktemp("java-client-of-both")) as started:
        yield started


@pytest.fixture
def connect_java(driver: JavaClientDriver) -> Iterator[ConnectJava]:
    """Open clients; they are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def opened(member: Member) -> JavaClient:
            properties = {"subscribe_reconnect_retry_wait_time": 300, "message_consume_retry_wait_time": 300}
            return stack.enter_context(JavaClient(driver, f"127.0.0.1:{member.port}", properties))

        yield opened


@pytest.fixture
def topic() -> bytes:
    """A topic that no other test has."""
    return b"together-%d" % next(_numbers)
