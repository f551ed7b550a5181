"""Prove that reports stay right when the Thrift2 gateway dies, hangs, or repeats a write behind its caller's back.

Properties: an unknown outcome is never reported as known; no acknowledged write lost; no increment counts twice.
"""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from hedwig.clock import Deadline
from hedwig.errors import MetadataUnavailableError
from metadata import MetadataStore, StoreOptions
from metadata.hbase.thrift2 import driver
from metadata.hbase.thrift2.connection import Connection
from tests.faults.history import Done, Saw
from tests.faults.network import NETWORKED
from tests.faults.recording import Recorder, RecordingClient
from tests.faults.sickbay import heal
from tests.faults.waiting import until
from tests.metadata.clients import Clients, Names
from tests.metadata.doors import CALLS, Door
from tests.metadata.place import Place
from tests.servers import RunningServers

GATEWAY: Final = "thrift2"
REGION_SERVER: Final = "regionserver-1"
DOOR: Final = CALLS[1]


@pytest.fixture(scope="session", params=[row for row in NETWORKED if row.label == "hbase+thrift"], ids=["hbase+thrift"])
def networked(request: pytest.FixtureRequest) -> Any:
    """The one backend that has a gateway."""
    return request.param


class Workload:
    """Clients that create, update and delete records without end, each call written down."""

    def __init__(self, store: MetadataStore, door: Door, topics: list[bytes], rng: random.Random) -> None:
        self.recorder = Recorder()
        self._store = store
        self._door = door
        self._topics = topics
        self._rng = rng
        self._enough = asyncio.Event()

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        """Let so many clients work, each on one record at a time that it shares with others."""
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                client = self.recorder.client(f"client {number}", self._store, self._door)
                group.create_task(self._work(client, self._topics[number % len(self._topics)]))
            try:
                yield
            finally:
                self._enough.set()

    async def more(self, writes: int, timeout_s: float = 120.0) -> None:
        """Wait until so many more writes were acknowledged."""
        goal = self.recorder.outcomes["Done"] + writes
        await until(lambda: self.recorder.outcomes["Done"] >= goal, f"{writes} more writes", timeout_s)

    async def _work(self, client: RecordingClient, topic: bytes) -> None:
        seen: int | None = None
        while not self._enough.is_set():
            seen = await self._write(client, topic, seen)

    async def _write(self, client: RecordingClient, topic: bytes, seen: int | None) -> int | None:
        try:
            if seen is not None and self._rng.random() < 0.1:
                outcome = await client.delete(topic, seen)
                if outcome == Done():
                    return None
            else:
                number = client.new_number()
                outcome = await client.put(topic, seen, number)
                if outcome == Done():
                    return number
            return outcome.state if isinstance(outcome, Saw) else await client.read(topic)
        except MetadataUnavailableError:
            return seen  # A read that found nobody; the next write tells.


async def _judge(work: Workload, topics: list[bytes], afresh: MetadataStore, door: Door) -> None:
    """Read everything afresh, and hold all reports against it."""
    for topic in topics:
        await work.recorder.client("afresh", afresh, door).read(topic)
    print(dict(work.recorder.outcomes))
    work.recorder.check()


async def test_gateway_killed_and_restarted_in_the_middle(
    networked_place: Place, faulty_servers: RunningServers, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Kill the gateway with writes in flight: they end within their deadline, and later ones find the new gateway."""
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(8)]
    work = Workload(await clients.open(networked_place, StoreOptions(operation_timeout_s=60.0)), DOOR, topics, rng)
    before = launcher.pid(GATEWAY)
    async with work.running(clients=24):
        await work.more(100)
        await asyncio.to_thread(launcher.kill, GATEWAY)
        await asyncio.to_thread(launcher.start, GATEWAY)
        await work.more(100)
    assert launcher.pid(GATEWAY) != before
    await _judge(work, topics, await clients.open(networked_place), DOOR)


@pytest.mark.parametrize("frozen", [GATEWAY, REGION_SERVER])
async def test_server_paused_past_the_deadline(
    frozen: str,
    networked_place: Place,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
    rng: random.Random,
) -> None:
    """Freeze a server for longer than a write may take: the writes in flight are uncertain, whatever becomes of them.

    What the frozen server had received it carries out when it goes on, long after the callers were told.
    """
    launcher = faulty_servers.launcher
    topics = [names(b"%s-%d" % (frozen.encode(), number)) for number in range(8)]
    store = await clients.open(networked_place, StoreOptions(operation_timeout_s=1.0))
    work = Workload(store, DOOR, topics, rng)
    async with work.running(clients=16):
        await work.more(100)
        await asyncio.to_thread(launcher.pause, frozen)
        await until(lambda: work.recorder.outcomes["Unknown"] >= 8, "writes that nobody answers")
        await asyncio.to_thread(heal_after_pause, launcher)
        await work.more(100)
    assert work.recorder.outcomes["Unknown"] >= 8
    await _judge(work, topics, await clients.open(networked_place), DOOR)


def heal_after_pause(launcher: Any) -> None:
    """Let everything go on; a region server that was away for too long ends itself and is started anew."""
    heal(launcher)


class WrongAnswers:
    """What the gateway answered to each conditional write, by the token that names it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: defaultdict[bytes, list[bool]] = defaultdict(list)
        self._receipts: set[bytes] = set()

    def connection(self, *args: Any, **kwargs: Any) -> Connection:
        """Make a connection that reports here."""
        return _ObservedConnection(self, *args, **kwargs)

    def note(self, method: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """Look at one call and its answer."""
        with self._lock:
            if method == "checkAndMutate":
                receipt = arguments[-1].mutations[-1].put.columnValues[0].qualifier
                self._answers[receipt].append(bool(answer))
            elif method == "get":
                for cell in answer.columnValues:
                    name = cell.qualifier.encode() if isinstance(cell.qualifier, str) else cell.qualifier
                    if name.startswith(b"~"):
                        self._receipts.add(name)

    def wrong_on_first_asking(self) -> int:
        """Count writes that were sent once, answered False, and had been applied, as their receipts prove."""
        with self._lock:
            return sum(self._answers[receipt] == [False] for receipt in self._receipts)


class _ObservedConnection(Connection):
    def __init__(self, observer: WrongAnswers, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._observer = observer

    def call(self, deadline: Deadline, method: str, *arguments: Any) -> Any:
        answer = super().call(deadline, method, *arguments)
        self._observer.note(method, arguments, answer)
        return answer


KILLS_MAX: Final = 6


async def test_region_server_killed_under_the_gateway_makes_it_deny_what_it_did(
    networked_place: Place,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill the region server under many writes until the gateway has denied at least one that it did; none is misreported.

    The gateway repeats a write whose answer it lost, finds the condition no longer true, and answers False, though its
    first try was applied. That it happened is seen on the wire: one request, answered False, and its receipt there.
    """
    observer = WrongAnswers()
    monkeypatch.setattr(driver, "Connection", observer.connection)
    place = Place(f"{networked_place.url}?connections=128", networked_place.probe)
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(96)]
    work = Workload(await clients.open(place, StoreOptions(operation_timeout_s=120.0)), DOOR, topics, rng)
    pids = {launcher.pid(REGION_SERVER)}
    async with work.running(clients=128):
        for kill in range(KILLS_MAX):
            await work.more(300)
            await asyncio.to_thread(launcher.kill, REGION_SERVER)
            await asyncio.to_thread(launcher.start, REGION_SERVER)
            pids.add(launcher.pid(REGION_SERVER))
            await work.more(150)
            print(f"{observer.wrong_on_first_asking()} writes denied after {kill + 1} kills")
            if observer.wrong_on_first_asking():
                break
    assert len(pids) == kill + 2
    await _judge(work, topics, await clients.open(networked_place), DOOR)
    assert observer.wrong_on_first_asking() >= 1, "the gateway never denied a write that it had done"
