"""How a case runs on a hub of its own: what is done before it, and what is read after it."""

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from hedwig.benchmarks.drivers.drivers import LEDGERS, ZNODES, Driver, GeneratorDriver, JavaDriver, MeasuredHub
from hedwig.benchmarks.drivers.hub.znode_paths import ZnodePaths
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import EMBEDDED, Case
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.machine.jvm_flags import SERVERS, NoteFlags
from hedwig.benchmarks.machine.sampling import usage_of
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.hub.charts import FIRST_PUBLISHES, TOPIC_BYTES, ZOOKEEPER_WRITES
from hedwig.benchmarks.suites.hub.process import AnyHub, HubProcess
from hedwig.benchmarks.suites.hub.servers import HubServers
from hedwig.benchmarks.suites.hub.sizes import COLD, IDLE_CONNECTIONS, IDLE_TOPICS, PUBLISH
from hedwig.benchmarks.suites.hub.watch import watched
from hedwig.errors import OperationError

__all__ = ["HubCases"]

_SETTLED: Final = 0.002
"""Memory has settled once it changes by at most this share between two looks."""
_SETTLE_LOOK_S: Final = 1.0
_SETTLE_S: Final = 60.0
_WARM_TOPICS: Final = 1_000
_WARM_IN_FLIGHT: Final = 100
_FIRST_TOPICS: Final = itertools.count(0, 100_000)
"""The first topic number of each run of the Java program, which names its topics itself."""
_HOLD_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HubCases:
    """Measures cases.

    directory: where hubs keep their data, a fresh folder for each case.
    settings: options of the hub, as key=value.
    address: a hub that runs already, to measure instead. Cases that need a fresh or restarted hub then fail.
    pid: the process of that hub, if it is on this machine.
    processes: the number of generator processes that share a load.
    servers: the servers under hubs that are not embedded, if such hubs are measured.
    warm_s: for how many seconds such a hub is warmed up.
    note_flags: receives the flags of the servers' virtual machines, once they run.
    """

    directory: Path
    settings: Sequence[str] = ()
    address: str | None = None
    pid: int | None = None
    processes: int = 1
    servers: HubServers | None = None
    warm_s: float = 10.0
    note_flags: NoteFlags = lambda _where, _flags: None

    def measure(self, case: Case, number: int) -> Measurement:
        """Measure a case as round `number`. An error becomes the measurement's wall."""
        workload = case.workload
        try:
            if case.on != EMBEDDED:
                return self._measure_on_bookies(case, number)
            if case.driver == ZNODES:
                return self._measure_znodes(case, number)
            if self.address is not None:
                return self._measure_running(case, MeasuredHub(self.address, self.pid), number)
            return _PROCEDURES.get(workload.name, HubCases._measure_plain)(self, case, number)
        except OperationError as exc:
            return Measurement(workload=workload, driver=case.driver, on=case.on, round=number, wall=str(exc))
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _folder(self) -> Path:
        return self.directory / "hub"

    def _hub(self, *settings: str) -> HubProcess:
        shutil.rmtree(self._folder, ignore_errors=True)
        return HubProcess(self._folder, (*settings, *self.settings))

    def _driver(self, name: str) -> Driver:
        return JavaDriver() if name == "java" else GeneratorDriver(name, self.processes)

    # -------------------------------------------------------------------------------------------------- the procedures

    def _measure_running(self, case: Case, subject: MeasuredHub, number: int) -> Measurement:
        if case.workload.name in _PROCEDURES:
            raise BenchmarkError(f"{case.workload.name} needs a hub of its own; leave --address out")
        # No earlier run has used this prefix, so all subscriptions are new.
        workload = replace(case.workload, prefix=f"bench-{time.time_ns():x}")
        self._warm(workload, subject)
        measurement = self._driver(case.driver).measure(workload, subject, number)
        measurement.workload = case.workload
        return measurement

    def _measure_plain(self, case: Case, number: int) -> Measurement:
        with self._hub() as hub:
            subject = MeasuredHub(hub.address, hub.pid)
            if case.driver != "java":
                self._warm(case.workload, subject)
            return watched(hub, lambda: self._driver(case.driver).measure(case.workload, subject, number))

    def _measure_znodes(self, case: Case, number: int) -> Measurement:
        """Measure a ZooKeeper alone. Its processor time and memory stand where other cases have those of a hub."""
        with ZnodePaths(self._folder) as znodes:
            self.note_flags(ZNODES, znodes.jvm_flags())
            subject = MeasuredHub(znodes.address, znodes.pid)
            if self.warm_s:
                warm = replace(case.workload, prefix="warm", seconds=self.warm_s, warmup_s=0.0)
                GeneratorDriver(ZNODES).measure(warm, subject, 0)
            return self._driver(case.driver).measure(case.workload, subject, number)

    def _measure_on_bookies(self, case: Case, number: int) -> Measurement:
        servers = self.servers
        assert servers is not None
        if servers.begin(number, case.workload.topics):
            self._warm_bookies(servers)
        self.note_flags(SERVERS, servers.jvm_flags())
        # No earlier case has used this prefix.
        workload = replace(case.workload, prefix=f"bench-{time.time_ns():x}")
        roles = servers.roles(case.on)
        if case.driver == LEDGERS:
            subject = MeasuredHub("", None, roles=roles, ledgers=servers.ledgers(case.on))
            measurement = self._driver(case.driver).measure(workload, subject, number)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)
            with servers.hub(case.on, self._folder, self.settings) as hub:
                self.note_flags(SERVERS, servers.jvm_flags())  # The original hub runs in its own cases only.
                measurement = self._measure_hub(case, hub, workload, roles, number, servers)
        measurement.workload = case.workload
        return measurement

    def _measure_hub(
        self,
        case: Case,
        hub: AnyHub,
        workload: Workload,
        roles: Mapping[str, list[int]],
        number: int,
        servers: HubServers,
    ) -> Measurement:
        def subject() -> MeasuredHub:
            return MeasuredHub(hub.address, hub.pid, roles=roles, first_topic=next(_FIRST_TOPICS))

        self._warm_up(workload, subject())
        if workload.name == COLD:
            self._fill(workload, Operation.SUBSCRIBE_AND_CLOSE, subject())
            self._fill(workload, Operation.PUBLISH, subject())
            hub.stop()
            hub.start()
            self._warm_up(workload, subject())
        elif case.driver != "java" and workload.name == PUBLISH:
            return self._measure_publishes(case, hub, workload, subject, number, servers)
        return watched(hub, lambda: self._driver(case.driver).measure(workload, subject(), number))

    def _measure_publishes(
        self,
        case: Case,
        hub: AnyHub,
        workload: Workload,
        subject: Callable[[], MeasuredHub],
        number: int,
        servers: HubServers,
    ) -> Measurement:
        """Have each topic get its first message, then measure the load, and note what both cost."""
        transactions, rss = servers.zookeeper_transactions(), _rss(hub.pid)
        first = self._fill(workload, Operation.PUBLISH, subject())
        grown = _rss(hub.pid) - rss
        measurement = watched(hub, lambda: self._driver(case.driver).measure(workload, subject(), number))
        measurement.values |= {
            FIRST_PUBLISHES: first.rate_per_s,
            TOPIC_BYTES: grown / workload.topics,
            ZOOKEEPER_WRITES: servers.zookeeper_transactions() - transactions,
        }
        return measurement

    def _warm_up(self, workload: Workload, subject: MeasuredHub) -> None:
        """Run the same load for `warm_s` seconds on other topics, and ignore its result."""
        if self.warm_s:
            again = replace(
                workload,
                prefix=f"warm-{time.time_ns():x}",
                mix={Operation.PUBLISH.value: 1.0} if workload.name == COLD else workload.mix,
                topics=min(workload.topics, _WARM_TOPICS),
                operations=0,
                rate_per_s=0.0,
                in_flight=min(workload.in_flight, _WARM_IN_FLIGHT),
                seconds=self.warm_s,
                warmup_s=0.0,
            )
            GeneratorDriver("raw").measure(again, subject, 0)

    def _warm_bookies(self, servers: HubServers) -> None:
        load = Workload(name=PUBLISH, prefix="warm", in_flight=_WARM_IN_FLIGHT, seconds=self.warm_s, warmup_s=0.0)
        for hub_kind in servers.with_ledgers:
            subject = MeasuredHub("", None, ledgers=servers.ledgers(hub_kind))
            GeneratorDriver(LEDGERS).measure(load, subject, 0)

    def _measure_cold(self, case: Case, number: int) -> Measurement:
        with self._hub() as hub:
            subject = MeasuredHub(hub.address, hub.pid)
            self._fill(case.workload, Operation.SUBSCRIBE_AND_CLOSE, subject)
            self._fill(case.workload, Operation.PUBLISH, subject)
            hub.stop()
            hub.start()
            subject = MeasuredHub(hub.address, hub.pid)
            self._fill(replace(case.workload, prefix="warm", topics=100, operations=100), Operation.PUBLISH, subject)
            return watched(hub, lambda: self._driver(case.driver).measure(case.workload, subject, number))

    def _measure_idle_topics(self, case: Case, number: int) -> Measurement:
        workload = case.workload
        with self._hub("topic_idle_s=0", f"topics_max={workload.topics + 2 * _WARM_TOPICS}") as hub:
            subject = MeasuredHub(hub.address, hub.pid)
            # At its first requests the hub loads and allocates things once. These are not part of a topic's cost.
            warm = replace(workload, prefix="warm", topics=_WARM_TOPICS, operations=_WARM_TOPICS)
            self._fill(warm, Operation.SUBSCRIBE_AND_CLOSE, subject)
            before = _settled_rss(hub.pid)
            measurement = watched(hub, lambda: self._driver(case.driver).measure(workload, subject, number))
            after = _settled_rss(hub.pid)
            _note_growth(measurement, before, after, measurement.count, "topic")
            return measurement

    def _measure_idle_connections(self, case: Case, number: int) -> Measurement:
        count = case.workload.connections
        measurement = Measurement(workload=case.workload, driver=case.driver, round=number)
        with self._hub(f"channels_max={count + 100}") as hub:
            subject = MeasuredHub(hub.address, hub.pid)
            warm = replace(case.workload, connections=1, topics=100, operations=100, prefix="warm", seconds=60.0)
            self._fill(warm, Operation.PUBLISH, subject)
            before = _settled_rss(hub.pid)
            plan = {"driver": "connections", "address": hub.address, "connections": count}
            began = time.monotonic()
            with GeneratorProcess(plan) as generator:
                generator.hear("ready", began + _HOLD_S)
                measurement.count, measurement.seconds = count, time.monotonic() - began
                after = _settled_rss(hub.pid)
                generator.tell({})
                generator.hear("summary", time.monotonic() + _HOLD_S)
        _note_growth(measurement, before, after, count, "connection")
        return measurement

    # ---------------------------------------------------------------------------------------------------- preparations

    def _warm(self, workload: Workload, subject: MeasuredHub) -> None:
        """Have the hub own all topics of a load that publishes. Another case measures how fast it claims them."""
        if workload.name == PUBLISH:
            self._fill(workload, Operation.PUBLISH, subject)

    def _fill(self, workload: Workload, operation: Operation, subject: MeasuredHub) -> Measurement:
        """Run an operation once on each topic, and return how that went. Raises BenchmarkError - some failed."""
        filling = replace(
            workload,
            mix={operation.value: 1.0},
            operations=workload.topics,
            rate_per_s=0.0,
            in_flight=100,
            subscribers=0,
            seconds=3600.0,
            connections=1,
        )
        done = GeneratorDriver("raw").measure(filling, subject, 0)
        if done.count < workload.topics:
            errors = ", ".join(f"{count} × {error}" for error, count in done.errors.items())
            raise BenchmarkError(f"preparing {workload.topics} topics by {operation.value} failed: {errors}")
        return done


_PROCEDURES: Final[Mapping[str, Callable[[HubCases, Case, int], Measurement]]] = {
    COLD: HubCases._measure_cold,
    IDLE_TOPICS: HubCases._measure_idle_topics,
    IDLE_CONNECTIONS: HubCases._measure_idle_connections,
}


def _settled_rss(pid: int) -> int:
    """Return the resident bytes of a process once they have settled, or after a minute."""
    deadline = time.monotonic() + _SETTLE_S
    before = _rss(pid)
    while True:
        time.sleep(_SETTLE_LOOK_S)
        now = _rss(pid)
        if abs(now - before) <= _SETTLED * before or time.monotonic() > deadline:
            return now
        before = now


def _rss(pid: int) -> int:
    usage = usage_of(pid)
    if usage is None:
        raise BenchmarkError("the hub ended while its memory was read")
    return usage.rss_bytes


def _note_growth(measurement: Measurement, before: int, after: int, count: int, of_what: str) -> None:
    measurement.values["rss_bytes_before"] = before
    measurement.values["rss_bytes_after"] = after
    if count:
        measurement.values[f"bytes_per_{of_what}"] = (after - before) / count
