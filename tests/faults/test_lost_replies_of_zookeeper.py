"""Prove that reports stay right when ZooKeeper dies, hangs, or ends the session of its client.

Properties: an unknown outcome is never reported as known; no acknowledged write lost.
"""

import asyncio
import random
from dataclasses import replace
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from hedwig.metadata import MetadataUrl, StoreOptions
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Door
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.history import Done, Unknown
from tests.faults.support.network import NETWORKED, Networked
from tests.faults.support.proxy import PASS, Action, Step, at_random, scripted
from tests.faults.support.recording import Recorder
from tests.faults.support.waiting import until
from tests.faults.support.wires import ZooKeeperWire
from tests.faults.support.workload import Workload
from tests.faults.test_lost_replies_of_single_writes import OTHERS
from tests.support.servers import RunningServers

SERVER: Final = "zookeeper-1"
DOOR: Final = CALLS[2]
JOIN_TIMEOUT_S: Final = 20.0


@pytest.fixture(scope="session", params=[row for row in NETWORKED if row.label == "zookeeper"], ids=["zookeeper"])
def networked(request: pytest.FixtureRequest) -> Any:
    """The one backend that has sessions."""
    return request.param


def _expire(address: str, session: tuple[int, bytes]) -> None:
    """End a session from outside: join it as its client does after a reconnect, and close it."""
    client = KazooClient(hosts=address, client_id=session, timeout=JOIN_TIMEOUT_S)
    client.start(timeout=JOIN_TIMEOUT_S)
    assert client.client_id[0] == session[0], "the session was there to be ended"
    client.stop()
    client.close()


async def test_session_expires_under_writes(
    networked: Networked, networked_subject: Subject, clients: Clients, names: Names, rng: random.Random
) -> None:
    """End the session of a client several times, with writes in flight and lost replies; it starts new sessions."""
    topics = [names(b"%d" % number) for number in range(6)]
    address = MetadataUrl.parse(networked_subject.url).hosts
    expiries = 3
    async with (
        networked.proxy(networked_subject, lambda _: PASS) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        work = Workload(store, DOOR, topics, rng)
        async with work.running(clients=12):
            sessions = set()
            for _ in range(expiries):
                proxy.plan = at_random(rng, networked.write, {Step(Action.CUT_REPLY): 0.05})
                await work.more(40)
                proxy.plan = lambda _: PASS
                await work.more(10)
                wire = proxy.wires[-1]
                assert isinstance(wire, ZooKeeperWire)
                assert wire.session is not None
                sessions.add(wire.session[0])
                await asyncio.to_thread(_expire, address, wire.session)
                await work.more(20)
            await work.more(20)
    assert len(sessions) == expiries, "each time it was another session"
    assert work.recorder.outcomes["Unknown"] + work.recorder.outcomes["Saw"] > 0
    await work.judge(await clients.open(networked_subject))


@pytest.mark.parametrize("others", OTHERS, ids=lambda others: others.replace(" ", "_"))
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
@pytest.mark.parametrize("door", CALLS, ids=lambda door: door.label)
async def test_creation_together_with_the_parent_ends_as_it_is_reported(
    door: Door,
    action: Action,
    others: str,
    networked: Networked,
    networked_subject: Subject,
    clients: Clients,
    names: Names,
) -> None:
    """Lose the one transaction that makes a record and its parent, or its answer; others write meanwhile."""
    direct_store = await clients.open(networked_subject)
    first, topic = names(b"first"), names(b"topic")
    recorder = Recorder()
    direct = recorder.client("direct", direct_store, door)
    async with (
        networked.proxy(networked_subject, lambda _: PASS) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        behind = recorder.client("behind the proxy", store, door)
        await behind.put(first, None)  # Teaches the client that parents are missing.
        cut = Step(action, meanwhile=lambda: OTHERS[others](direct, topic))
        proxy.plan = scripted(networked.write, [cut])
        outcome = await behind.put(topic, None)
    await direct.read(topic)
    recorder.check()
    assert proxy.done[action] == 1, "nothing was cut"
    if others == "nobody":
        assert outcome == Done()
    elif action is Action.CUT_REPLY:
        assert isinstance(outcome, Done | Unknown)


@pytest.mark.parametrize("others", OTHERS, ids=lambda others: others.replace(" ", "_"))
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
@pytest.mark.parametrize("door", CALLS, ids=lambda door: door.label)
async def test_creations_in_one_transaction_end_each_as_it_is_reported(
    door: Door,
    action: Action,
    others: str,
    networked: Networked,
    networked_subject: Subject,
    clients: Clients,
    names: Names,
) -> None:
    """Lose the one transaction that makes many records, or the answer to it; others change one of them meanwhile."""
    direct_store = await clients.open(networked_subject)
    topics = [names(b"%d" % number) for number in range(12)]
    recorder = Recorder()
    direct = recorder.client("direct", direct_store, door)
    async with (
        networked.proxy(networked_subject, lambda _: PASS) as proxy,
        await replace(networked.behind(proxy, networked_subject), gather=True).open() as store,
    ):
        writers = [recorder.client(f"writer {number}", store, door) for number in range(len(topics))]
        await writers[0].put(names(b"first"), None)  # Teaches the client that parents are missing.
        before = proxy.seen.total()
        sent: list[int] = []

        async def meanwhile() -> None:
            sent.append(proxy.seen.total() - before)
            await OTHERS[others](direct, topics[5])

        proxy.plan = scripted(networked.write, [Step(action, meanwhile=meanwhile)])
        outcomes = await asyncio.gather(
            *(writer.put(topic, None) for writer, topic in zip(writers, topics, strict=True))
        )
    for topic in topics:
        await direct.read(topic)
    recorder.check()
    assert (proxy.done[action], sent) == (1, [1]), "all of them were in the request that was cut"
    untouched = outcomes[:5] + outcomes[6:]
    assert untouched == [Done()] * len(untouched), "nobody else was at these"
    if others == "nobody":
        assert outcomes[5] == Done()


async def test_server_killed_and_restarted_in_the_middle(
    networked_subject: Subject, faulty_servers: RunningServers, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Kill the server with writes in flight, twice."""
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(8)]
    work = Workload(await clients.open(networked_subject), DOOR, topics, rng)
    pids = {launcher.pid(SERVER)}
    async with work.running(clients=24):
        for _ in range(2):
            await work.more(100)
            await asyncio.to_thread(launcher.kill, SERVER)
            await asyncio.to_thread(launcher.start, SERVER)
            pids.add(launcher.pid(SERVER))
        await work.more(100)
    assert len(pids) == 3
    await work.judge(await clients.open(networked_subject))


async def test_server_paused_past_the_deadline(
    networked_subject: Subject, faulty_servers: RunningServers, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Freeze the server for longer than a write may take; it applies received writes when it resumes."""
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(8)]
    store = await clients.open(networked_subject, StoreOptions(operation_timeout_s=1.0))
    work = Workload(store, DOOR, topics, rng)
    async with work.running(clients=16):
        await work.more(100)
        await asyncio.to_thread(launcher.pause, SERVER)
        await until(lambda: work.recorder.outcomes["Unknown"] >= 8, "writes that nobody answers")
        await asyncio.to_thread(launcher.resume, SERVER)
        await work.more(100)
    await work.judge(await clients.open(networked_subject))
