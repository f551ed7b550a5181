"""Prove what is reported without a reply before the deadline, and that a request that arrives later undoes nothing.

Properties: an unknown outcome is never reported as known; a deposed owner changes nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, StoreOptions
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.history import Done, Unknown
from tests.faults.support.network import Networked
from tests.faults.support.proxy import PASS, Action, Step, scripted
from tests.faults.support.recording import NotDone, Recorder
from tests.faults.support.waiting import until

TIMEOUT_S: Final = 1.0


async def _opened(subject: Subject) -> MetadataStore:
    """Open a store whose operations end after `TIMEOUT_S`. On a busy machine its first opening may take longer."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await subject.open(StoreOptions(operation_timeout_s=TIMEOUT_S))
            except MetadataUnavailableError:
                await asyncio.sleep(0.1)


async def _with_every_door(scenario: Callable[[Call], Coroutine[Any, Any, None]]) -> None:
    """Run one scenario through every manager at once, since it mostly waits."""
    async with asyncio.TaskGroup() as group:
        for door in CALLS:
            group.create_task(scenario(door))


@pytest.mark.parametrize("overtaken", [True, False], ids=["overtaken", "alone"])
async def test_request_that_arrives_late_undoes_nothing(
    overtaken: bool, networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Hold an update back past its deadline; let another client write, or none; then let the held update arrive.

    When a client joins its session by another connection, ZooKeeper ends the old one, with the requests in flight.
    """

    async def scenario(door: Call) -> None:
        recorder = Recorder()
        topic = names(door.label.encode())
        direct = recorder.client("direct", await clients.open(networked_subject), door)
        standing, newer = recorder.new_number(), recorder.new_number()
        assert await direct.put(topic, None, standing) == Done()
        plan = scripted(networked.write, [Step(Action.HOLD_REQUEST)])
        async with (
            networked.proxy(networked_subject, plan) as proxy,
            await _opened(networked.behind(proxy, networked_subject)) as store,
        ):
            late = await recorder.client("behind the proxy", store, door).put(topic, standing)
            assert late == Unknown()
            if overtaken:
                assert await direct.put(topic, standing, newer) == Done()
            await direct.read(topic)
            proxy.release()
            await until(lambda: proxy.late_answers + proxy.late_losses, "the end of the late request")
            assert proxy.late_answers or networked.label == "zookeeper"
        last = await direct.read(topic)
        recorder.check()
        if overtaken:
            assert last == newer

    await _with_every_door(scenario)


async def test_reply_that_never_comes_leaves_the_outcome_open(
    networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Stop all replies on the connection of an update: it was applied, and no report to its caller denies that."""

    async def scenario(door: Call) -> None:
        recorder = Recorder()
        topic = names(door.label.encode())
        direct = recorder.client("direct", await clients.open(networked_subject), door)
        standing, mine = recorder.new_number(), recorder.new_number()
        assert await direct.put(topic, None, standing) == Done()
        plan = scripted(networked.write, [Step(Action.HOLD_REPLY)])
        async with (
            networked.proxy(networked_subject, plan) as proxy,
            await _opened(networked.behind(proxy, networked_subject)) as store,
        ):
            client = recorder.client("behind the proxy", store, door)
            # A client that leaves the silent connection in time may still read the outcome by another one.
            assert await client.put(topic, standing, mine) in (Unknown(), Done())
            assert await direct.read(topic) == mine
        recorder.check()

    await _with_every_door(scenario)


@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["applied", "not applied"])
async def test_server_that_does_not_come_back_leaves_the_outcome_open(
    action: Action, networked: Networked, networked_subject: Subject, clients: Clients, names: Names
) -> None:
    """Cut an update off, and every later connection: its outcome is unknown. The next update surely was not sent."""

    async def scenario(door: Call) -> None:
        recorder = Recorder()
        topic = names(door.label.encode())
        direct = recorder.client("direct", await clients.open(networked_subject), door)
        standing, mine = recorder.new_number(), recorder.new_number()
        assert await direct.put(topic, None, standing) == Done()
        async with networked.proxy(networked_subject, lambda _: PASS) as proxy:

            async def vanish() -> None:
                proxy.vanish()

            proxy.plan = scripted(networked.write, [Step(action, meanwhile=vanish)])
            subject = networked.behind(proxy, networked_subject)
            async with await _opened(replace(subject, url=subject.url + networked.one_connection)) as store:
                client = recorder.client("behind the proxy", store, door)
                assert await client.put(topic, standing, mine) == Unknown()
                assert await client.put(topic, standing) == NotDone()
                assert await direct.read(topic) == (mine if action is Action.CUT_REPLY else standing)
                await proxy.come_back()
                assert await client.read_at_last(topic) == (mine if action is Action.CUT_REPLY else standing)
        recorder.check()

    await _with_every_door(scenario)
