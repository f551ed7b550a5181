"""Prove that reports stay right when the Thrift2 gateway dies, hangs, or repeats a write unknown to its caller.

Properties: an unknown outcome is never reported as known; no acknowledged write lost; no increment counts twice.
"""

import asyncio
import random
import threading
from collections import defaultdict
from typing import Any, Final

import pytest

from hedwig.clock import Deadline
from hedwig.metadata import StoreOptions
from hedwig.metadata.hbase.thrift2 import driver
from hedwig.metadata.hbase.thrift2.connection import ThriftConnection
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.network import NETWORKED
from tests.faults.support.sickbay import tended
from tests.faults.support.waiting import until
from tests.faults.support.workload import Workload
from tests.support.servers import RunningServers

GATEWAY: Final = "thrift2"
REGION_SERVER: Final = "regionserver-1"
DOOR: Final = CALLS[1]


@pytest.fixture(scope="session", params=[row for row in NETWORKED if row.label == "hbase+thrift"], ids=["hbase+thrift"])
def networked(request: pytest.FixtureRequest) -> Any:
    """The one backend that has a gateway."""
    return request.param


async def test_gateway_killed_and_restarted_in_the_middle(
    networked_subject: Subject, faulty_servers: RunningServers, clients: Clients, names: Names, rng: random.Random
) -> None:
    """Kill the gateway with writes in flight: they end within their deadline, and later ones find the new gateway."""
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(8)]
    work = Workload(await clients.open(networked_subject, StoreOptions(operation_timeout_s=60.0)), DOOR, topics, rng)
    before = launcher.pid(GATEWAY)
    async with work.running(clients=24):
        await work.more(100)
        await asyncio.to_thread(launcher.kill, GATEWAY)
        await asyncio.to_thread(launcher.start, GATEWAY)
        await work.more(100)
    assert launcher.pid(GATEWAY) != before
    await work.judge(await clients.open(networked_subject))


@pytest.mark.parametrize("frozen", [GATEWAY, REGION_SERVER])
async def test_server_paused_past_the_deadline(
    frozen: str,
    networked_subject: Subject,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
    rng: random.Random,
) -> None:
    """Freeze a server for longer than a write may take: the writes in flight are reported as uncertain.

    The frozen server applies received writes when it resumes, long after the reports to the callers.
    """
    launcher = faulty_servers.launcher
    topics = [names(b"%s-%d" % (frozen.encode(), number)) for number in range(8)]
    store = await clients.open(networked_subject, StoreOptions(operation_timeout_s=1.0))
    work = Workload(store, DOOR, topics, rng)
    async with work.running(clients=16):
        await work.more(100)
        await asyncio.to_thread(launcher.pause, frozen)
        await until(lambda: work.recorder.outcomes["Unknown"] >= 8, "writes that nobody answers")
        await asyncio.to_thread(launcher.resume, frozen)
        async with tended(launcher):
            await work.more(100)
    assert work.recorder.outcomes["Unknown"] >= 8
    await work.judge(await clients.open(networked_subject))


class WrongAnswers:
    """The answers of the gateway to each conditional write, by the token of the write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: defaultdict[bytes, list[bool]] = defaultdict(list)
        self._receipts: set[bytes] = set()

    def connection(self, *args: Any, **kwargs: Any) -> ThriftConnection:
        """Make a connection that reports here."""
        return _ObservedConnection(self, *args, **kwargs)

    def note(self, method: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """Record one call and its answer."""
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
        """Count writes that were sent once, answered with False, and yet applied, as their receipts prove."""
        with self._lock:
            return sum(self._answers[receipt] == [False] for receipt in self._receipts)


class _ObservedConnection(ThriftConnection):
    def __init__(self, observer: WrongAnswers, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._observer = observer

    def call(self, deadline: Deadline, method: str, *arguments: Any) -> Any:
        answer = super().call(deadline, method, *arguments)
        self._observer.note(method, arguments, answer)
        return answer


KILLS_MAX: Final = 16
"""Kills at most; about every second one has the wanted effect."""


@pytest.mark.full
async def test_region_server_killed_under_the_gateway_makes_it_deny_what_it_did(
    networked_subject: Subject,
    faulty_servers: RunningServers,
    clients: Clients,
    names: Names,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kill the region server under many writes until the gateway has denied an applied one; none is misreported.

    The gateway repeats a write whose answer it lost, finds the condition no longer true, and answers False, though its
    first attempt was applied. The wire shows it: one request, answered with False, and its receipt in the store.
    """
    observer = WrongAnswers()
    monkeypatch.setattr(driver, "ThriftConnection", observer.connection)
    subject = Subject(f"{networked_subject.url}?connections=128", networked_subject.probe)
    launcher = faulty_servers.launcher
    topics = [names(b"%d" % number) for number in range(96)]
    work = Workload(await clients.open(subject, StoreOptions(operation_timeout_s=120.0)), DOOR, topics, rng)
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
    await work.judge(await clients.open(networked_subject))
    assert observer.wrong_on_first_asking() >= 1, "the gateway never denied a write that it had done"
