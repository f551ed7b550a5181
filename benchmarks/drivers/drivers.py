"""Drivers: each runs a workload by a client of its own, against an address, and returns a measurement."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from hedwig.benchmarks.drivers.hub.java_client import JavaBenchmark, JavaBenchmarkRun, JavaMode, JavaResult
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.recording import Summary, merged
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.machine.sampling import Sampler
from hedwig.benchmarks.runs.results import Measurement
from hedwig.errors import OperationError

__all__ = ["DRIVERS", "LEDGERS", "USUAL_DRIVERS", "ZNODES", "Driver", "GeneratorDriver", "JavaDriver", "MeasuredHub"]

LEDGERS: Final = "ledgers"
"""The driver without a hub: our ledger client alone, on the bookies."""
ZNODES: Final = "znodes"
"""The driver of deliveries without a hub: each message is a znode for each subscriber, in its own ZooKeeper."""

_SECOND_NS: Final = 1_000_000_000
_OPEN_S: Final = 300.0
_DRAIN_S: Final = 60.0
_START_AHEAD_S: Final = 0.2
_JAVA_PROBE: Final = 5_000
_JAVA_PROBE_S: Final = 2.0
"""A load that is to take no longer needs no probe; the probe's messages are the load."""
_JAVA_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class MeasuredHub:
    """The hub that is measured: where it listens, and its process if it is on this machine.

    roles: processes that work for the hub, by their kind.
    ledgers: the bookies, instead of a hub, for the driver that appends to ledgers itself.
    first_topic: number of the Java program's first topic, so that its topics have unused names.
    """

    address: str
    pid: int | None
    roles: Mapping[str, list[int]] = field(default_factory=dict)
    ledgers: Mapping[str, Any] | None = None
    first_topic: int = 0


class Driver(Protocol):
    """Runs a workload in processes of its own."""

    @property
    def name(self) -> str:
        """Return the word that results use for this driver."""
        ...

    def measure(self, workload: Workload, subject: MeasuredHub, number: int) -> Measurement:
        """Run a workload as round `number`. Raises BenchmarkError - the workload could not run, and why."""
        ...


@dataclass(frozen=True, slots=True)
class GeneratorDriver:
    """Generator processes with one of our targets.

    drain_s: how long to wait, in the end, for the operations in flight.
    The targets are `raw`, `client` (hedwig.client), `client-once` (the same with `publish_once`), `ledgers` (the ledger
    client) and `znodes` (messages in ZooKeeper).
    """

    name: str
    processes: int = 1
    drain_s: float = _DRAIN_S

    def measure(self, workload: Workload, subject: MeasuredHub, number: int) -> Measurement:
        """Run a workload as round `number`."""
        is_alone = workload.subscribers or subject.ledgers is not None
        processes = 1 if is_alone else min(self.processes, workload.in_flight)
        measurement = Measurement(workload=workload, driver=self.name, round=number, generator_processes=processes)
        with ExitStack() as stack:
            generators = [
                stack.enter_context(GeneratorProcess(self._plan(workload, subject, share, processes)))
                for share in range(processes)
            ]
            deadline = time.monotonic() + _OPEN_S + workload.topics * max(1, workload.subscribers) / 500
            for generator in generators:
                generator.hear("ready", deadline)
            roles = _roles(subject, [generator.pid for generator in generators])
            with Sampler(roles) as sampler:
                start_ns = time.monotonic_ns() + round(_START_AHEAD_S * _SECOND_NS)
                for generator in generators:
                    generator.tell({"start_ns": start_ns})
                # Besides the load and its drain, allow time to compute the summary of millions of operations.
                deadline = time.monotonic() + 3 * (workload.seconds + self.drain_s) + 60
                summary = merged([Summary.from_json(each.hear("summary", deadline)) for each in generators])
        measurement.take(summary, is_delivery=Operation.DELIVER in workload.mix)
        _note_usage(measurement, sampler, subject, start_ns, summary.begin_ns, summary.end_ns)
        return measurement

    def _plan(self, workload: Workload, subject: MeasuredHub, share: int, shares: int) -> dict[str, object]:
        return {
            "driver": self.name,
            "address": subject.address,
            "workload": workload.to_json(),
            "share": share,
            "shares": shares,
            "drain_s": self.drain_s,
            "ledgers": subject.ledgers,
        }


@dataclass(frozen=True, slots=True)
class JavaDriver:
    """The benchmark program of the original Java client: it publishes, or makes first subscriptions.

    The program takes a number of messages, not a time. For a workload without one, a short run shows how many messages
    fill the time. The program names its topics itself. It reports the mean and the 99th percentile in whole
    milliseconds, and no histogram.
    """

    name: str = "java"

    def measure(self, workload: Workload, subject: MeasuredHub, number: int) -> Measurement:
        """Run a workload as round `number`."""
        measurement = Measurement(workload=workload, driver=self.name, round=number)
        benchmark = self._benchmark(workload, subject, self._messages(workload, subject))
        try:
            with (
                JavaBenchmarkRun(subject.address, benchmark, progress=lambda _: None) as running,
                Sampler(_roles(subject, [running.pid])) as sampler,
            ):
                result = running.result(_JAVA_S)
                end_ns = time.monotonic_ns()
        except OperationError as exc:
            raise BenchmarkError(f"{exc}{_said_last(exc)}") from exc
        measurement.count = result.count - result.failed
        measurement.seconds = result.count / result.rate_per_s if result.rate_per_s else 0.0
        measurement.offered = result.count
        if result.failed:
            measurement.errors["failed"] = result.failed
        if result.latency_mean_ms is not None:
            above = ">= " if result.percentile_is_above else ""
            measurement.reported = {"mean": f"{result.latency_mean_ms} ms", "p99": f"{above}{result.percentile_ms} ms"}
        begin_ns = end_ns - round(measurement.seconds * _SECOND_NS)
        _note_usage(measurement, sampler, subject, begin_ns, begin_ns, end_ns)
        return measurement

    def _messages(self, workload: Workload, subject: MeasuredHub) -> int:
        if Operation.PUBLISH not in workload.mix:
            return 0
        if workload.operations:
            return self._whole(workload.operations, workload.topics)
        if workload.is_open_loop:
            return self._whole(round(workload.rate_per_s * workload.seconds), workload.topics)
        probe = self._benchmark(workload, subject, self._whole(_JAVA_PROBE, workload.topics))
        if workload.seconds <= _JAVA_PROBE_S:
            return probe.messages
        rate = self._run(probe, subject).rate_per_s
        return self._whole(round(rate * workload.seconds), workload.topics)

    def _run(self, benchmark: JavaBenchmark, subject: MeasuredHub) -> JavaResult:
        with JavaBenchmarkRun(subject.address, benchmark, progress=lambda _: None) as running:
            return running.result(_JAVA_S)

    def _whole(self, messages: int, topics: int) -> int:
        """Return a number of messages that the program accepts: the same for each topic, and at least two."""
        return topics * max(2, round(messages / topics))

    def _benchmark(self, workload: Workload, subject: MeasuredHub, messages: int) -> JavaBenchmark:
        kinds = [Operation(name) for name in workload.mix]
        match kinds:
            case [Operation.PUBLISH]:
                return JavaBenchmark(
                    mode=JavaMode.PUBLISH,
                    topics=workload.topics,
                    messages=messages,
                    in_flight=workload.in_flight,
                    message_bytes=workload.message_bytes,
                    rate_per_s=round(workload.rate_per_s),
                    first_topic=subject.first_topic,
                )
            case [Operation.SUBSCRIBE]:
                return JavaBenchmark(
                    mode=JavaMode.SUBSCRIBE,
                    topics=1,
                    messages=2,
                    subscriptions=max(2, workload.operations),
                )
            case _:
                raise BenchmarkError(f"the Java client's program cannot run {', '.join(kinds)}")


def _said_last(error: Exception) -> str:
    """Return why the program ended: the first line of its output that names an exception, else its last line."""
    lines = [line.strip() for note in getattr(error, "__notes__", ()) for line in note.splitlines() if line.strip()]
    chosen = [line for line in lines if "Exception" in line] or lines[-1:]
    return f": {chosen[0]}" if chosen else ""


def _roles(subject: MeasuredHub, generators: list[int]) -> dict[str, list[int]]:
    return {**subject.roles, "hub": [] if subject.pid is None else [subject.pid], "generator": generators}


def _note_usage(
    measurement: Measurement, sampler: Sampler, subject: MeasuredHub, start_ns: int, begin_ns: int, end_ns: int
) -> None:
    for role in subject.roles:
        if (cores := sampler.cores(role, begin_ns, end_ns)) is not None:
            measurement.values[f"{role}_cores"] = cores
        if (size := sampler.rss_bytes_max(role)) is not None:
            measurement.values[f"{role}_rss_bytes_max"] = size
    measurement.hub_cores = sampler.cores("hub", begin_ns, end_ns)
    measurement.hub_written_bytes_per_s = sampler.written_bytes_per_s("hub", begin_ns, end_ns)
    measurement.hub_rss_bytes_max = sampler.rss_bytes_max("hub")
    measurement.generator_cores = sampler.cores("generator", begin_ns, end_ns)
    last = (end_ns - start_ns) // _SECOND_NS
    for second, roles in sampler.series(start_ns).items():
        if second <= last:
            measurement.series.setdefault(second, {}).update(roles)


DRIVERS: Final[Sequence[str]] = ("raw", "client", "client-once", "java", LEDGERS, ZNODES)
USUAL_DRIVERS: Final[Sequence[str]] = ("raw", "client", "java")
