"""Prove that the bridge to kazoo loses no request silently, keeps its bounds, and outlives what befalls a session."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from hedwig.clock import Deadline, SystemClock
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, BridgeOptions, NewSession, create, exists, get
from tests.faults.support.proxy import Action, Proxy, Step, scripted
from tests.faults.support.wires import ZooKeeperWire
from tests.support.servers import RunningServers
from tests.zookeeper.support.silence import kazoo_threads, nobody_listens, paused, unanswered

CLOCK: Final = SystemClock()
ROOT: Final = "/zookeeper"
"""A node that every server has."""


def _soon(seconds: float = 30.0) -> Deadline:
    return Deadline.after(CLOCK, seconds)


@pytest.fixture
def address(servers: RunningServers) -> str:
    return servers.address("zookeeper")


@pytest.fixture
async def bridge(address: str) -> AsyncIterator[Bridge]:
    opened = Bridge(address, BridgeOptions())
    await opened.connect()
    yield opened
    await opened.close()


async def _session(bridge: Bridge) -> tuple[int, bytes]:
    """Return the id and password of the session, by way of a request that only looks at the client."""
    seen: list[tuple[int, bytes]] = []

    def look(client: KazooClient) -> Any:
        seen.append(client.client_id)
        return client.exists_async(ROOT)

    await bridge.send(_soon(), look)
    return seen[0]


async def _answered(bridge: Bridge) -> None:
    """Ask until there is an answer."""
    deadline = _soon()
    while True:
        try:
            assert (await bridge.send(deadline, exists(ROOT)))[0] is not None
            return
        except OutcomeUnknownError:
            continue


# ------------------------------------------------------------------------------------------------------- requests


async def test_results_come_in_the_order_of_requests_and_errors_are_results(bridge: Bridge) -> None:
    stat, missing, (_, again) = await bridge.send(_soon(), exists(ROOT), get("/no such node"), get(ROOT))
    assert isinstance(missing, NoNodeError)
    assert stat == again


async def test_requests_take_turns_at_the_bound(address: str) -> None:
    bridge = Bridge(address, BridgeOptions(in_flight_max=4))
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


async def test_waiting_for_a_turn_ends_at_the_deadline(address: str, servers: RunningServers) -> None:
    bridge = Bridge(address, BridgeOptions(in_flight_max=1))
    await bridge.connect()
    with paused(servers):
        first = await unanswered(lambda: bridge.send(_soon(), exists(ROOT)))
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
    await asyncio.gather(*(bridge.send(_soon(), exists(ROOT)) for _ in range(BridgeOptions().in_flight_max + 1)))


# ----------------------------------------------------------------------------------------------------- connections


async def test_without_a_connection_nothing_is_submitted() -> None:
    bridge = Bridge(f"127.0.0.1:{nobody_listens()}", BridgeOptions())
    submitted: list[KazooClient] = []
    with pytest.raises(NotAppliedError):
        await bridge.send(_soon(0.2), submitted.append)
    assert submitted == []
    await bridge.close()


async def test_silent_server_leaves_the_outcome_unknown_and_the_loop_running(
    bridge: Bridge, servers: RunningServers, address: str
) -> None:
    """Far more requests than a socket pair has room for wake-ups, while nobody reads what kazoo writes.

    A loop that stood still would do so until kazoo leaves the server, two thirds of a session later.
    """
    large = get(f"{ROOT}/{'x' * 20_000}")
    with paused(servers):
        async with asyncio.timeout(6):
            outcomes = await asyncio.gather(
                *(bridge.send(_soon(2), large) for _ in range(1000)), return_exceptions=True
            )
    assert {type(outcome) for outcome in outcomes} <= {OutcomeUnknownError, NotAppliedError}
    assert sum(isinstance(outcome, OutcomeUnknownError) for outcome in outcomes) > 500
    assert all(address in str(outcome) for outcome in outcomes)
    assert await bridge.send(_soon(), exists(ROOT))


async def test_operations_go_on_after_the_session_expired(bridge: Bridge, address: str) -> None:
    session = await _session(bridge)
    usurper = KazooClient(hosts=address, client_id=session)
    await asyncio.to_thread(usurper.start)
    # Ends the session for both.
    await asyncio.to_thread(usurper.stop)
    usurper.close()
    await _answered(bridge)
    assert (await _session(bridge))[0] != session[0]


@pytest.mark.filterwarnings("ignore:Exception in thread:pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_client_that_kazoo_gave_up_is_replaced_in_the_same_session(bridge: Bridge, address: str) -> None:
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

    with pytest.raises(OutcomeUnknownError, match=address):
        await bridge.send(_soon(), submit)
    assert (await bridge.send(_soon(), exists(ROOT)))[0] is not None
    assert (await _session(bridge))[0] == session[0]


async def test_answers_are_newer_than_the_zxid_seen(bridge: Bridge, address: str) -> None:
    path = f"/bridge-{uuid.uuid4().hex}"
    await bridge.send(_soon(), create(path))
    before = bridge.zxid_seen
    assert before > 0
    await bridge.send(_soon(), create(f"{path}/child"))
    ((_, stat),) = await bridge.send(_soon(), get(f"{path}/child"))
    assert stat.czxid > before
    assert bridge.zxid_seen >= stat.czxid


async def test_each_connection_is_announced_with_its_session(address: str) -> None:
    announced: list[NewSession] = []
    bridge = Bridge(address, BridgeOptions(session_timeout_s=4.5), announced.append)
    await bridge.connect()
    assert bridge.connection is announced[0]
    assert announced == [NewSession((await _session(bridge))[0], 4.5)]
    await bridge.close()


async def test_a_silent_server_is_left_at_once_for_the_same_session(address: str, servers: RunningServers) -> None:
    announced: list[NewSession] = []
    bridge = Bridge(address, BridgeOptions(), announced.append)
    await bridge.connect()
    with paused(servers):
        request = await unanswered(lambda: bridge.send(_soon(), exists(ROOT)))
        bridge.drop_connection()
        with pytest.raises(OutcomeUnknownError, match=address):
            await bridge.send(_soon(0.5), exists(ROOT))
        bridge.drop_connection()  # There may be none, or one that has not begun.
    with pytest.raises(OutcomeUnknownError, match=address):
        await request
    await _answered(bridge)
    assert len(announced) > 1
    assert set(announced) == {announced[0]}
    await bridge.close()


async def test_a_silent_server_is_left_however_much_is_asked_of_it(address: str) -> None:
    """Kazoo by itself asks a server whether it is there only while nobody else asks it anything."""
    async with Proxy(f"{address},{address}", ZooKeeperWire) as proxy:
        bridge = Bridge(proxy.address, BridgeOptions(session_timeout_s=4.0))
        await bridge.connect()
        proxy.plan = scripted("exists", [Step(Action.HOLD_REPLY)])
        asking: list[asyncio.Task[list[Any]]] = []
        async with asyncio.timeout(15):
            while not any(task.done() and task.exception() is None for task in asking):
                asking.append(asyncio.create_task(bridge.send(_soon(), exists(ROOT))))
                await asyncio.wait(asking[-1:], timeout=0.1)
        assert proxy.done[Action.HOLD_REPLY] == 1
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        lost = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert {type(outcome) for outcome in lost} == {OutcomeUnknownError}
        # It was no sooner than kazoo itself would have done it.
        assert len(lost) > 20
        await bridge.close()


# ----------------------------------------------------------------------------------------------------------- closing


async def test_close_leaves_no_thread_and_may_be_called_again(address: str) -> None:
    before = kazoo_threads()
    bridge = Bridge(address, BridgeOptions())
    await bridge.connect()
    assert kazoo_threads() > before
    await asyncio.gather(bridge.close(), bridge.close())
    await bridge.close()
    assert kazoo_threads() <= before
    with pytest.raises(AbortedError) as refusal:
        await bridge.send(_soon(), exists(ROOT))
    assert not refusal.value.sent
