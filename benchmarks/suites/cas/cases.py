"""How a case of `hedwig-bench cas` runs: in a client process for each driver, which stays for the next case."""

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

from hedwig.benchmarks.drivers.records.hbase_records import records_table
from hedwig.benchmarks.drivers.records.java_program import java_command
from hedwig.benchmarks.drivers.records.record_clients import PARTS, SUBSCRIBER
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.client_pool import ClientPool
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.machine.cpu_time import cpu_s_between
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.machine.sampling import Sampler
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.cas.servers import Servers
from hedwig.errors import OperationError

__all__ = ["CasCases"]

_SECOND_NS: Final = 1_000_000_000
_OPEN_S: Final = 180.0
_DRAIN_S: Final = 60.0
_FILLED_PER_S: Final = 50
_START_AHEAD_S: Final = 0.05
_JAVA: Final = "java"


class CasCases:
    """Measures cases. `with` ends the clients."""

    def __init__(self, servers: Servers, progress: Callable[[str], None]) -> None:
        self._servers = servers
        self._progress = progress
        self._clients = ClientPool(self._start)
        self._used = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.__exit__(kind, error, trace)

    def measure(self, case: Case, number: int) -> Measurement:
        """Measure a case as round `number`. An error becomes the measurement's wall."""
        try:
            return self._measure(case, number)
        except OperationError as exc:
            # The client may still be at work, so the next case gets a new one.
            self._clients.end(case.driver)
            return Measurement(workload=case.workload, driver=case.driver, round=number, wall=str(exc))

    def _measure(self, case: Case, number: int) -> Measurement:
        workload = case.workload
        client = self._clients.of(case.driver)
        self._used += 1
        # The prefix makes all rows new, so that earlier writes to a record do not affect the numbers.
        fresh = replace(workload, prefix=f"bench-{time.time_ns():x}-{self._used}")
        topic_of = fresh.topic_chooser()
        order = [topic_of(each) for each in range(fresh.topics)] if case.driver == _JAVA else []
        client.tell({"workload": fresh.to_json(), "order": order, "drain_s": _DRAIN_S})
        client.hear("ready", time.monotonic() + _OPEN_S + fresh.topics / _FILLED_PER_S)
        measurement = Measurement(workload=workload, driver=case.driver, round=number)
        servers = self._servers.pids.get(case.driver, [])
        roles = {"servers": servers, "client": [client.pid]}
        with Sampler(roles, flushes=self._servers.flushes) as sampler:
            start_ns = time.monotonic_ns() + round(_START_AHEAD_S * _SECOND_NS)
            client.tell({"start_ns": start_ns})
            begin_ns = start_ns + round(workload.warmup_s * _SECOND_NS)
            end_ns = start_ns + round(workload.seconds * _SECOND_NS)
            of_client, of_servers = cpu_s_between(begin_ns, end_ns, ([client.pid], servers))
            # This includes, beyond the drain, time to compute the summary.
            summary = Summary.from_json(client.hear("summary", time.monotonic() + 3 * _DRAIN_S))
        measurement.take(summary, is_delivery=False)
        measurement.values["refusals"] = summary.refusals
        if of_client is not None:
            measurement.values["client_cpu_s"] = of_client
        if of_servers is not None:
            measurement.values["servers_cpu_s"] = of_servers
        if (flushes := sampler.flushes_per_s(begin_ns, end_ns)) is not None:
            measurement.values[FLUSHES] = flushes
        for role in ("client", "servers"):
            if (held := sampler.rss_bytes_max(role)) is not None:
                measurement.values[f"{role}_rss_bytes_max"] = held
        for second, roles in sampler.series(start_ns).items():
            if second <= workload.seconds:
                measurement.series.setdefault(second, {}).update(roles)
        return measurement

    def _start(self, driver: str) -> GeneratorProcess:
        if driver == _JAVA:
            return GeneratorProcess(self._java_plan(), java_command(self._progress))
        return GeneratorProcess({"driver": driver, "place": self._servers.of[driver]})

    def _java_plan(self) -> dict[str, Any]:
        location = self._servers.of[_JAVA]
        preferences, state = PARTS
        return {
            "driver": _JAVA,
            "configuration": {name: value for name, value in location.items() if name != "url"},
            "table": records_table(location["url"]),
            "preferences": base64.b64encode(preferences).decode(),
            "state": base64.b64encode(state).decode(),
            "subscriber": SUBSCRIBER.decode(),
        }
