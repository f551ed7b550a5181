"""Faults in a sequence that a seed decides: a hub, a bookie, the region server or ZooKeeper is killed or paused."""

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from hedwig.cli.dev import DevError, DevServers, ServerState
from hedwig.errors import MetadataError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.model import SubscriberId, Topic
from tests.chaos.support.history import Fault
from tests.chaos.support.hubs import SESSION_S, Hubs
from tests.chaos.support.starvation import waited_most_s, waits_s
from tests.chaos.support.workload import Workload
from tests.faults.support.sickbay import heal
from tests.hub.support.running import HubNotServingError

__all__ = ["LIMIT_S", "Healing", "Kind", "Turmoil", "too_slow"]

LIMIT_S: Final = SESSION_S + 2.0
"""The time within which topics must be served again."""

_PATIENCE_S: Final = 30.0
"""The time to wait beyond the limit, to measure how long it took."""
_HEALING_S: Final = 300.0
_HBASE_S: Final = 75.0
"""HBase restarted at an unlucky moment may wait for itself for ever. After this time it is started again."""
_ROUND_S: Final = 0.05
_LOOK_S: Final = 1.0
_PROBED: Final = 24

Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault: the kind of server, what is done to it, and for how long; None: until others have taken over."""

    server: str
    do: str
    span: Span | None


_KINDS: Final = (
    Kind("hub", "kill", None),
    Kind("hub", "kill", None),
    Kind("hub", "kill", (0.1, 2.0)),
    Kind("hub", "pause", (0.5, SESSION_S / 2)),
    Kind("hub", "pause", (SESSION_S + 1, SESSION_S + 4)),
    Kind("bookie", "kill", (0.1, 6.0)),
    Kind("bookie", "pause", (0.5, 3.0)),
    Kind("bookie", "pause", (5.0, 9.0)),
    Kind("regionserver", "kill", (0.1, 3.0)),
    Kind("regionserver", "pause", (0.5, 3.0)),
    Kind("regionserver", "pause", (5.0, 9.0)),
    Kind("zookeeper", "kill", (0.1, 3.0)),
    Kind("zookeeper", "pause", (0.5, 3.0)),
)
_LONG_KINDS: Final = (*_KINDS, Kind("zookeeper", "pause", (SESSION_S, SESSION_S + 3)))
"""They include the fault that ends every session. A session of an HBase or BookKeeper server lasts 4 s."""


class Healing:
    """Repairs servers, and measures when each of them answers, and how long topics then take."""

    def __init__(self, stack: DevServers, hubs: Hubs, load: Workload) -> None:
        self.stack = stack
        self.hubs = hubs
        self._load = load

    async def all_answer(self) -> None:
        """Start and resume servers as needed, and wait until every server answers, HBase also for our tables."""
        deadline = time.monotonic() + _HEALING_S
        while True:
            try:
                # A region server that was away for too long ends by itself, some time after it resumed.
                await asyncio.to_thread(heal, self.stack, _HBASE_S)
                await asyncio.to_thread(self.hubs.heal)
                await self._read_metadata()
                if all(each.state is ServerState.RUNNING for each in await asyncio.to_thread(self.stack.status)):
                    return
            except DevError as exc:
                if time.monotonic() > deadline:
                    raise
                print(f"HBase is started anew: {str(exc).splitlines()[0]}")
                await asyncio.to_thread(self._end_hbase)
            except HubNotServingError as exc:
                # A server that the hub needs did not answer in time, such as HBase after the end of its session.
                if exc.returncode != ExitCode.UNAVAILABLE or time.monotonic() > deadline:
                    raise
                print("a hub is started again, for what it needs did not answer")
            except MetadataError:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline, f"the servers do not all answer after {_HEALING_S:g} s"

    def ended(self) -> list[str]:
        """Return the servers that do not run, including paused ones."""
        return [each.name for each in self.stack.status() if each.state is not ServerState.RUNNING]

    def _end_hbase(self) -> None:
        for server in self.stack.status():
            if server.kind in ("hbase-master", "regionserver") and server.pid is not None:
                self.stack.kill(server.name)

    def _waits(self) -> Mapping[int, float]:
        """Return how long this process, with all clients, and each hub waited for a processor."""
        return waits_s([os.getpid(), *(hub.pid for hub in self.hubs.hubs.values() if hub.is_running)])

    async def _read_metadata(self) -> None:
        topics = [Topic(each) for each in sorted(self._load.topics)[:_PROBED]]
        options = StoreOptions(operation_timeout_s=2.0)
        async with await open_metadata(self.hubs.metadata, options) as store:
            await asyncio.gather(
                *(store.ownership.read(each) for each in topics),
                *(store.persistence.read(each) for each in topics),
                *(store.subscriptions.read(each, _ANYBODY) for each in topics),
            )

    async def measure(self, fault: Fault, clock_from: float) -> None:
        """Have all publishers publish, and record how long after `clock_from` each topic takes to be served.

        A region server that was paused may end by itself seconds after it answered again. Then all servers are healed
        first, and the clock begins once all answer.
        """
        load = self._load
        topics = load.topics
        fault.clock_from, fault.limit_s, fault.topics = clock_from, LIMIT_S, len(topics)
        load.wave()
        before = self._waits()
        deadline = clock_from + LIMIT_S + _PATIENCE_S
        looked = time.monotonic()
        while not topics <= (served := load.served(clock_from)).keys():
            load.check()
            if time.monotonic() > looked + _LOOK_S:
                if ended := await asyncio.to_thread(self.ended):
                    fault.what = f"{fault.what}; {', '.join(ended)} ended meanwhile"
                    await self.all_answer()
                    clock_from = fault.clock_from = time.monotonic()
                    load.wave()
                    before, deadline = self._waits(), clock_from + LIMIT_S + _PATIENCE_S
                looked = time.monotonic()
            fault.starved_s = waited_most_s(before, self._waits())
            if time.monotonic() > deadline + fault.starved_s:
                break
            await asyncio.sleep(_ROUND_S)
        took = [served[topic] - clock_from for topic in topics if topic in served]
        fault.late = tuple(topic.decode() for topic in sorted(topics - served.keys()))
        if took:
            fault.slowest = max(topics & served.keys(), key=lambda topic: served[topic]).decode()
        fault.served_s = max(took, default=0.0)
        fault.half_served_s = statistics.median(took) if took else 0.0


_ANYBODY: Final = SubscriberId(b"anybody")


def too_slow(faults: Iterable[Fault], origin: float) -> list[str]:
    """Return the faults after which topics were not served again in time, in words."""
    return [each.line(origin) for each in faults if each.late or each.served_s > each.limit_s + each.starved_s]


class Turmoil:
    """Causes one fault of servers after another, and records them."""

    def __init__(self, healing: Healing, load: Workload, source: random.Random, *, is_long: bool = False) -> None:
        self._healing = healing
        self._stack = healing.stack
        self._hubs = healing.hubs
        self._load = load
        # A source of its own, so that the draws of others do not change the faults.
        self._source = random.Random(source.randrange(1 << 60))
        self._kinds_of_run = _LONG_KINDS if is_long else _KINDS
        self._deck: list[Kind] = []
        self.kinds: Counter[str] = Counter()

    async def run(self, seconds: float, *, at_once: float = 0.0) -> None:
        """Cause faults for `seconds`. `at_once`: the share of faults during which there is another one."""
        began = time.monotonic()
        end = began + seconds
        while time.monotonic() < end:
            kind = self._next()
            other = self._next() if self._source.random() < at_once else None
            await self._do(kind, other)
            print(self._load.history.faults[-1].line(began), flush=True)
            await asyncio.sleep(self._source.uniform(0.2, 2.0))

    def _next(self) -> Kind:
        """Return the next kind of fault: all of them in turn, in a new order each time."""
        if not self._deck:
            first, *others = self._kinds_of_run
            self._source.shuffle(others)
            # Take the kill of a hub first, so that every run has one, even if a slow machine has time for few faults.
            self._deck = [*others, first]
        return self._deck.pop()

    async def _do(self, kind: Kind, other: Kind | None) -> None:
        name = self._victim(kind)
        fault = Fault("", time.monotonic())
        self._load.history.faults.append(fault)
        fault.what = await self._harm(kind, name)
        began = time.monotonic()
        healing = self._healing
        if kind.span is None:
            # The stores work, so other hubs take over soon after the session's end.
            fault.what = f"{fault.what}, and come back once its topics are served"
            await healing.measure(fault, fault.began)
            fault.ended = time.monotonic()
            await healing.all_answer()
            fault.answered = time.monotonic()
            return
        span_s = self._source.uniform(*kind.span)
        if other is not None and (also := self._victim(other)) != name:
            await asyncio.sleep(self._source.uniform(0, span_s))
            fault.what = f"{fault.what}, then {await self._harm(other, also)}"
            span_s = max(span_s, time.monotonic() - began + self._source.uniform(*(other.span or kind.span)))
        await asyncio.sleep(max(0.0, began + span_s - time.monotonic()))
        fault.ended = time.monotonic()
        await healing.all_answer()
        fault.answered = time.monotonic()
        await healing.measure(fault, fault.answered)

    async def _harm(self, kind: Kind, name: str) -> str:
        where: Hubs | DevServers = self._hubs if kind.server == "hub" else self._stack
        ways: dict[str, Callable[[str], None]] = {"kill": where.kill, "pause": where.pause}
        harm: Awaitable[None] = asyncio.to_thread(ways[kind.do], name)
        try:
            await harm
        except DevError:
            # If the session of a region server ended while it, or ZooKeeper, was away, the server ends by itself when
            # it learns of that. Then the fault is that it is gone.
            if name not in await asyncio.to_thread(self._healing.ended):
                raise
            return f"{name} had ended by itself"
        self.kinds[f"{kind.do} {kind.server}"] += 1
        return f"{kind.do} {name}"

    def _victim(self, kind: Kind) -> str:
        if kind.server == "hub":
            owned = Counter(self._load.owners().values())
            names = list(self._hubs.hubs)
            weights = [1 + owned[self._hubs.hubs[name].address] for name in names]
            return self._source.choices(names, weights)[0]
        return self._source.choice([each.name for each in self._stack.status() if each.kind == kind.server])
