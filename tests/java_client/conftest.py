"""Fixtures: one Java process for all tests of this folder, the hubs, and clients that end with the test."""

import contextlib
import random
import uuid
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from hedwig.cli.dev.ports import choose_port
from tests.hub.support.running import RunningHub
from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver, Value, java_client_driver
from tests.java_client.support.hubs import Hub, OriginalHub
from tests.support.servers import RunningServers

__all__ = ["Connect"]

Connect: TypeAlias = Callable[..., JavaClient]
"""Opens a client of the hub under test, with properties of the Java client as keywords."""


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClientDriver]:
    """The process that runs all Java clients: it starts slowly."""
    with java_client_driver(tmp_path_factory.mktemp("java-client")) as started:
        yield started


@pytest.fixture(scope="module", params=["ours", "original"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub under test, and the original, which proves that the expectation is right."""
    if request.param == "ours":
        # A port outside the range of outgoing connections: one of those could take the port while the hub is down.
        port = choose_port((), random.Random())
        with RunningHub(tmp_path_factory.mktemp("our-hub"), f"port={port}") as ours:
            yield ours
    else:
        servers: RunningServers = request.getfixturevalue("servers")
        yield OriginalHub(servers)


@pytest.fixture
def ours(hub: Hub) -> bool:
    """Return whether the hub is ours, for cases in which it differs from the original on purpose."""
    return isinstance(hub, RunningHub)


@pytest.fixture(params=[False, True], ids=["simple", "multiplexed"])
def shared(request: pytest.FixtureRequest) -> bool:
    """Return whether the subscriptions of a client share one channel."""
    chosen: bool = request.param
    return chosen


@pytest.fixture
def connect(driver: JavaClientDriver, hub: Hub, shared: bool) -> Iterator[Connect]:
    """Open clients; they are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def opened(**properties: Value) -> JavaClient:
            given: dict[str, Value] = {
                "subscription_channel_sharing_enabled": shared,
                "subscribe_reconnect_retry_wait_time": 300,
            }
            return stack.enter_context(JavaClient(driver, hub.address, {**given, **properties}))

        yield opened


@pytest.fixture
def topic() -> bytes:
    """A topic that no other test has."""
    return b"java-client-" + uuid.uuid4().hex.encode()
