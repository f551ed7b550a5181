"""Prove that acknowledged writes survive a kill -9 of the server, with the acknowledged version and value.

Properties: no acknowledged write lost; a version never repeats; an unknown outcome is never reported as known.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from hedwig.metadata import StoreOptions
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.history import Done, Saw
from tests.faults.support.network import Networked
from tests.faults.support.raw import assert_stored
from tests.faults.support.recording import Recorder, RecordingClient
from tests.faults.support.waiting import until
from tests.metadata.support.backends import Surroundings
from tests.support.servers import RunningServers, own_servers

THROUGH_THE_GATEWAY: Final[tuple[str, ...]] = ()

IN_FLIGHT: Final = 16
RATE_MIN: Final = 3.0
"""Acknowledged writes per second before the fault; with fewer, a run proves nothing."""

VICTIMS: Final = {
    "zookeeper": "zookeeper-1",
    "hbase+thrift": "regionserver-1",
    "hbase": "regionserver-1",
    "hbase-on-three": "regionserver-1",
}
OPTIONS: Final = StoreOptions(operation_timeout_s=120.0)
DOORS_ASKED: Final = (CALLS[0], CALLS[2])


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    """Servers of their own."""
    with own_servers(tmp_path_factory) as servers:
        yield Surroundings(servers, tmp_path_factory.mktemp("stores"))


@dataclass(frozen=True, slots=True)
class _Line:
    """One record, and the only client that writes it."""

    door: Call
    topic: bytes
    client: RecordingClient


async def _write(line: _Line, enough: asyncio.Event) -> None:
    """Create the record and update it, again and again, through all faults."""
    seen: int | None = None
    while not enough.is_set():
        number = line.client.new_number()
        outcome = await line.client.put(line.topic, seen, number)
        match outcome:
            case Done():
                seen = number
            case Saw(state):
                seen = state
            case _:
                seen = await line.client.read(line.topic)


@pytest.mark.parametrize(
    ("writes", "kills"),
    [
        pytest.param(300, 1, id="quick"),
        pytest.param(2000, 3, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
    ],
)
async def test_acknowledged_writes_survive_kill_9_of_the_server(
    writes: int,
    kills: int,
    networked: Networked,
    networked_subject: Subject,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
) -> None:
    """Kill the server that stores the records amid writes, start it again, and read all records by a new client."""
    launcher, victim = faulty_servers.launcher, VICTIMS[networked.label]
    recorder = Recorder()
    store = await clients.open(networked_subject, OPTIONS)
    lines = [
        _Line(door, names(b"%d" % index), recorder.client(f"writer {index} {door.label}", store, door))
        for index in range(IN_FLIGHT // len(DOORS_ASKED))
        for door in DOORS_ASKED
    ]
    pids = [launcher.pid(victim)]
    enough = asyncio.Event()
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for line in lines:
            group.create_task(_write(line, enough))
        await _more(recorder, writes // (kills + 1))
        rate = recorder.outcomes["Done"] / (time.monotonic() - began)
        for _ in range(kills):
            await asyncio.to_thread(launcher.kill, victim)
            await asyncio.to_thread(launcher.start, victim)
            pids.append(launcher.pid(victim))
            await _more(recorder, writes // (kills + 1))
        enough.set()
    print(f"{rate:.0f} writes/s before the fault; {dict(recorder.outcomes)}")
    assert rate >= RATE_MIN
    assert len(set(pids)) == kills + 1, "the server was really another one"

    afresh = await clients.open(networked_subject)
    probe = await clients.probe(networked_subject)
    for line in lines:
        number = await recorder.client("afresh", afresh, line.door).read(line.topic)
        assert number is not None
        await assert_stored(probe, line.door, line.door.key(line.topic), number, recorder.versions[number])
    recorder.check()


async def _more(recorder: Recorder, writes: int) -> None:
    """Wait until `writes` more writes were acknowledged."""
    goal = recorder.outcomes["Done"] + writes
    await until(lambda: recorder.outcomes["Done"] >= goal, f"{writes} writes")
