"""Prove that the bridge to kazoo loses no request silently, keeps its bounds, and outlives what befalls a session."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.model import LedgerRanges, Topic
from hedwig.versions import ANY, NEW
from metadata import MetadataStore, StoreOptions, open_metadata
from metadata.attempts import AbortedError, NotAppliedError, OutcomeUnknownError
from metadata.zookeeper.bridge import Bridge
from metadata.zookeeper.requests import create, exists, get
from tests.metadata.zookeeper.conftest import Prefix
from tests.servers import RunningServers

CLOCK: Final = SystemClock()
ROOT: Final = "/zookeeper"
"""A node that every server has."""


def _soon(seconds: float = 30.0) -> Deadline:
    return Deadline.after(CLOCK, seconds)


@pytest.fixture
async def bridge(prefix: Prefix) -> AsyncIterator[Bridge]:
    opened = Bridge(prefix.address, StoreOptions())
    await opened.connect()
    yield opened
    await opened.close()


@contextmanager
def _paused(servers: RunningServers) -> Iterator[None]:
    (name,) = [server.name for server in servers.launcher.status() if server.kind == "zookeeper"]
    servers.launcher.pause(name)
    try:
        yield
    finally:
        servers.launcher.resume(name)


async def _unanswered(ask: Callable[[], Coroutine[Any, Any, Any]]) -> "asyncio.Task[Any]":
    """Ask until the server, told to stop, really has, and return the request that it did not answer."""
    while True:
        request = asyncio.create_task(ask())
        done, _ = await asyncio.wait([request], timeout=0.3)
        if not done:
            return request


def _kazoo_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.main_thread()}


async def _session(bridge: Bridge) -> tuple[int, bytes]:
    """Return the id and password of the session, by way of a request that only looks at the client."""
    seen: list[tuple[int, bytes]] = []

    def look(client: KazooClient) -> Any:
        seen.append(client.client_id)
        return client.exists_async(ROOT)

    await bridge.send(_soon(), look)
    return seen[0]


# ------------------------------------------------------------------------------------------------------- requests


async def test_results_come_in_the_order_of_requests_and_errors_are_results(bridge: Bridge) -> None:
    stat, missing, (_, again) = await bridge.send(_soon(), exists(ROOT), get("/no such node"), get(ROOT))
    assert isinstance(missing, NoNodeError)
    assert stat == again


async def test_requests_take_turns_at_the_bound(prefix: Prefix) -> None:
    bridge = Bridge(prefix.address, StoreOptions(in_flight_max=4))
    await bridge.connect()
    under_way = most = 0

    def counted(client: KazooClient) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        return client.exists_async(ROOT)

    async def ask() -> None:
        nonlocal under_way
        await bridge.send(_soon(), counted)
        under_way -= 1

    await asyncio.gather(*(ask() for _ in range(200)))
    assert most == 4
    await bridge.close()


async def test_waiting_for_a_turn_ends_at_the_deadline(prefix: Prefix, servers: RunningServers) -> None:
    bridge = Bridge(prefix.address, StoreOptions(in_flight_max=1))
    await bridge.connect()
    with _paused(servers):
        first = await _unanswered(lambda: bridge.send(_soon(), exists(ROOT)))
        with pytest.raises(NotAppliedError):
            await bridge.send(_soon(0.05), exists(ROOT))
    await first
    await bridge.close()


async def test_cancellation_leaves_the_bridge_usable(bridge: Bridge) -> None:
    tasks = [asyncio.create_task(bridge.send(_soon(), exists(ROOT))) for _ in range(500)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
    assert all(outcome[0] is not None for outcome in outcomes[1::2] if not isinstance(outcome, BaseException))
    assert not any(isinstance(outcome, BaseException) for outcome in outcomes[1::2])
    # No turn was lost: as many as ever may be under way together.
    await asyncio.gather(*(bridge.send(_soon(), exists(ROOT)) for _ in range(StoreOptions().in_flight_max + 1)))


# ----------------------------------------------------------------------------------------------------- connections


def _nobody_listens() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def test_unreachable_hosts_are_named_in_time() -> None:
    before = _kazoo_threads()
    host = f"127.0.0.1:{_nobody_listens()}"
    start = time.monotonic()
    with pytest.raises(MetadataUnavailableError, match=host):
        await open_metadata(f"zookeeper://{host}/hedwig/standalone", StoreOptions(operation_timeout_s=0.5))
    assert time.monotonic() - start >= 0.5
    assert _kazoo_threads() <= before


async def test_without_a_connection_nothing_is_submitted() -> None:
    bridge = Bridge(f"127.0.0.1:{_nobody_listens()}", StoreOptions())
    submitted: list[KazooClient] = []
    with pytest.raises(NotAppliedError):
        await bridge.send(_soon(0.2), submitted.append)
    assert submitted == []
    await bridge.close()


async def test_silent_server_leaves_the_outcome_unknown_and_the_loop_running(
    bridge: Bridge, servers: RunningServers
) -> None:
    """Far more requests than a socket pair has room for wake-ups, while nobody reads what kazoo writes.

    A loop that stood still would do so until kazoo leaves the server, two thirds of a session later.
    """
    large = get(f"{ROOT}/{'x' * 20_000}")
    with _paused(servers):
        async with asyncio.timeout(6):
            outcomes = await asyncio.gather(
                *(bridge.send(_soon(2), large) for _ in range(1000)), return_exceptions=True
            )
    assert {type(outcome) for outcome in outcomes} <= {OutcomeUnknownError, NotAppliedError}
    assert sum(isinstance(outcome, OutcomeUnknownError) for outcome in outcomes) > 500
    assert await bridge.send(_soon(), exists(ROOT))


async def test_operations_go_on_after_the_session_expired(bridge: Bridge, prefix: Prefix) -> None:
    session = await _session(bridge)
    usurper = KazooClient(hosts=prefix.address, client_id=session)
    await asyncio.to_thread(usurper.start)
    # Ends the session for both.
    await asyncio.to_thread(usurper.stop)
    usurper.close()
    deadline = _soon()
    while True:
        try:
            assert (await bridge.send(deadline, exists(ROOT)))[0] is not None
            break
        except OutcomeUnknownError:
            continue
    assert (await _session(bridge))[0] != session[0]


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_client_that_kazoo_gave_up_is_replaced_in_the_same_session(bridge: Bridge) -> None:
    """A request that cannot be serialised ends kazoo's thread, as a reply that it cannot read does."""
    session = await _session(bridge)

    class Unsendable:
        type = 4

        def serialize(self) -> bytes:
            raise RuntimeError("not this one")

    def submit(client: KazooClient) -> Any:
        result = client.handler.async_result()
        client._call(Unsendable(), result)
        return result

    with pytest.raises(OutcomeUnknownError):
        await bridge.send(_soon(), submit)
    assert (await bridge.send(_soon(), exists(ROOT)))[0] is not None
    assert (await _session(bridge))[0] == session[0]


async def test_answers_are_newer_than_the_zxid_seen(bridge: Bridge, prefix: Prefix) -> None:
    await bridge.send(_soon(), create(f"/{prefix.path.rpartition('/')[2]}"))
    before = bridge.zxid_seen
    assert before > 0
    await bridge.send(_soon(), create(f"/{prefix.path.rpartition('/')[2]}/child"))
    ((_, stat),) = await bridge.send(_soon(), get(f"/{prefix.path.rpartition('/')[2]}/child"))
    assert stat.czxid > before
    assert bridge.zxid_seen >= stat.czxid


# ----------------------------------------------------------------------------------------------------------- closing


async def test_close_leaves_no_thread_and_may_be_called_again(prefix: Prefix) -> None:
    before = _kazoo_threads()
    bridge = Bridge(prefix.address, StoreOptions())
    await bridge.connect()
    assert _kazoo_threads() > before
    await asyncio.gather(bridge.close(), bridge.close())
    await bridge.close()
    assert _kazoo_threads() <= before
    with pytest.raises(AbortedError) as refusal:
        await bridge.send(_soon(), exists(ROOT))
    assert not refusal.value.sent


async def test_close_ends_what_is_under_way_at_once(store: MetadataStore, servers: RunningServers) -> None:
    ranges, topic = store.persistence, Topic(b"t")
    version = await ranges.write_topic_persistence_info(topic, LedgerRanges(), NEW)
    with _paused(servers):
        read = await _unanswered(lambda: ranges.read_topic_persistence_info(topic))
        write = asyncio.create_task(ranges.write_topic_persistence_info(topic, LedgerRanges(), version))
        delete = asyncio.create_task(ranges.delete_topic_persistence_info(topic, version))
        await asyncio.wait([write, read, delete], timeout=0.3)
        closing = asyncio.create_task(store.close())
        with pytest.raises(UncertainStateError):
            await write
        with pytest.raises(UncertainStateError):
            await delete
        with pytest.raises(MetadataUnavailableError) as unread:
            await read
        assert unread.value.definite
    await closing
    for version in (NEW, ANY):
        with pytest.raises(MetadataUnavailableError) as refusal:
            await ranges.write_topic_persistence_info(topic, LedgerRanges(), version)
        assert refusal.value.definite
