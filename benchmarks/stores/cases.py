"""How a case of `hedwig-bench metadata` runs: by a client for each backend, which is kept for the next case."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.client_pool import ClientPool
from hedwig.benchmarks.load.generator_process import GeneratorProcess
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.machine.cpu_time import CpuTimesBeside, cpu_s_between
from hedwig.benchmarks.machine.disk_flushes import FLUSHES
from hedwig.benchmarks.machine.quiescing import CORES_MAX, settle
from hedwig.benchmarks.machine.sampling import Sampler
from hedwig.benchmarks.runs.results import LEFT_BEHIND, Measurement
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.servers import StoreServers
from hedwig.errors import HedwigError

__all__ = ["CLIENT_COMMAND", "MEMORY", "SERIES_WIDTH", "MetadataCases", "note_used"]

CLIENT_COMMAND: Final = ("-m", "hedwig.benchmarks.stores.client")
_SECOND_NS: Final = 1_000_000_000
_OPEN_S: Final = 120.0
_PREPARE_S: Final = 300.0
_DRAIN_S: Final = 60.0
_START_AHEAD_S: Final = 0.05
_FILL_INTERVAL_S: Final = 0.05
"""How often the processor time is read during a fill, which takes many minutes."""
_RESTART_MAX_S: Final = 600.0
_SAMPLE: Final = 200
_READ: Final = {
    "first_ns": "first_read_s",
    "owners_ns": "owners_read_s",
    "ranges_ns": "ranges_read_s",
    "subscriptions_ns": "subscriptions_read_s",
    "all_ns": "all_read_s",
    "written_ns": "written_s",
}
"""The times that a probe returns, and their names in the values of a restart."""
MEMORY: Final = "memory at the wall"
"""The name of the servers' memory in what a measurement reports."""
SERIES_WIDTH: Final = "series_width_s"
"""The name in values of the seconds that an entry of the series covers. It is absent for most loads: one second."""


class MetadataCases:
    """Runs cases on servers that are up; an error becomes the measurement's wall. `with` ends the clients."""

    def __init__(self, stores: StoreServers, python: str) -> None:
        self._stores = stores
        self._command = (python, *CLIENT_COMMAND)
        self._clients = ClientPool(self._start)
        self._used = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clients.__exit__(kind, error, trace)

    def settle(self, *, beside: str | None = None) -> dict[str, float]:
        """Wait until all servers are idle; return how long that took, for the values of the next measurement.

        beside: a backend whose own servers may be busy.
        `busy_cores`: processors that were still used when the wait was given up; only then.
        """
        servers = self._stores.servers() if beside is None else self._stores.idle(beside)
        if not servers:
            return {}
        settling = settle(servers)
        busy = {"busy_cores": settling.cores} if settling.cores > CORES_MAX else {}
        return {"settling_s": settling.seconds, **busy}

    def measure(self, backend: str, workload: Workload, dataset: Dataset, number: int) -> Measurement:
        """Run a workload as round `number`.

        The client then deletes the records that it made. If that fails, the measurement stays valid, and reports what
        is left in the store.
        """
        measurement = self._walled(backend, workload, number, lambda: self._measure(backend, workload, dataset, number))
        if measurement.wall is not None:
            # Servers that have just failed cannot be tidied: the next case gets a new client.
            self._clients.end(backend)
        elif (left := self._left_behind(backend)) is not None:
            measurement.reported[LEFT_BEHIND] = left
        return measurement

    def fill(
        self,
        backend: str,
        workload: Workload,
        task: FillTask,
        *,
        on_progress: Callable[[Mapping[str, float]], None] = lambda _: None,
    ) -> Measurement:
        """Make records; the measurement counts them, and its service times are those of batches.

        on_progress: gets the progress reports of `fill.fill_aloud`.
        """
        return self._walled(backend, workload, 1, lambda: self._fill(backend, workload, task, on_progress))

    def end(self, backend: str) -> None:
        """End a backend's client and its servers. Raises DevError - they do not end."""
        self._clients.end(backend)
        self._stores.end(backend)

    def restart(self, backend: str, workload: Workload, dataset: Dataset) -> Measurement:
        """Kill the server with the records, start it again, and meanwhile keep reading a sample of topics.

        Before that, all servers collect their garbage, which is not timed. The values have the remaining bytes.
        """
        heaps, why = self._live_heaps(backend)
        measurement = self._walled(backend, workload, 1, lambda: self._restart(backend, workload, dataset))
        measurement.values |= heaps
        if why is not None:
            measurement.reported["live heap"] = why
        return measurement

    def _walled(
        self, backend: str, workload: Workload, number: int, carry_out: Callable[[], Measurement]
    ) -> Measurement:
        try:
            measurement = carry_out()
        except HedwigError as exc:
            # The state of the client is not known: the next case gets a new one.
            self._clients.end(backend)
            measurement = Measurement(workload=workload, driver=backend, round=number, wall=str(exc))
        if ended := self._stores.ended(backend):
            measurement.wall = "; ".join([*ended, *([measurement.wall] if measurement.wall else [])])
        if measurement.wall is not None:
            # A server that lives may be as full as one that has ended: only its collector still works.
            measurement.reported[MEMORY] = self._stores.memory(backend)
            full = self._stores.out_of_memory(backend) or self._stores.full_heaps(backend)
            measurement.wall = "; ".join([measurement.wall, *full])
        return measurement

    def _left_behind(self, backend: str) -> str | None:
        """Wait until the client has deleted what its load made; return what is left in the store, None if nothing."""
        try:
            left: dict[str, int] = self._clients.of(backend).hear("tidied", time.monotonic() + _PREPARE_S)["left"]
        except BenchmarkError as exc:
            self._clients.end(backend)
            return "; ".join(
                [f"subscriptions of this load may still be in the store: {exc}", *self._stores.ended(backend)]
            )
        if not left:
            return None
        count, kinds = sum(left.values()), ", ".join(sorted(left))
        why = "; ".join([kinds, *self._stores.ended(backend)])
        return f"{count:,} subscriptions of this load may still be in the store: {why}"

    def _live_heaps(self, backend: str) -> tuple[dict[str, float], str | None]:
        """Return the live bytes in the heaps of a backend's servers, by kind and in total; or why they are unknown."""
        try:
            heaps = self._stores.live_heaps(backend)
        except BenchmarkError as exc:
            return {}, str(exc)
        of_kinds = {f"{kind}_live_heap_bytes": size for kind, size in heaps.items()}
        return {**of_kinds, "store_live_heap_bytes": sum(heaps.values())}, None

    def _measure(self, backend: str, workload: Workload, dataset: Dataset, number: int) -> Measurement:
        client = self._clients.of(backend)
        fresh = self._fresh(dataset)
        request = {"workload": workload.to_json(), "ground": fresh.to_json(), "round": number, "drain_s": _DRAIN_S}
        client.tell(request)
        client.hear("ready", time.monotonic() + _PREPARE_S)
        measurement = Measurement(workload=workload, driver=backend, round=number)
        roles = self._roles(backend, client)
        used = ([client.pid], _of_servers(roles), self._stores.idle(backend))
        with Sampler(roles, flushes=self._stores.flushes) as sampler:
            start_ns = time.monotonic_ns() + round(_START_AHEAD_S * _SECOND_NS)
            client.tell({"start_ns": start_ns, "processes": used})
            if workload.is_bounded:
                # Only the client knows when the load begins and ends.
                of_client, of_servers, of_idle = client.hear("used", _deadline(workload))
            else:
                begin_ns = start_ns + round(workload.warmup_s * _SECOND_NS)
                end_ns = start_ns + round(workload.seconds * _SECOND_NS)
                of_client, of_servers, of_idle = cpu_s_between(begin_ns, end_ns, used)
            summary = Summary.from_json(client.hear("summary", _deadline(workload)))
        measurement.take(summary, is_delivery=False)
        if not workload.is_open_loop:
            # A closed loop offers no load: operations that did not begin in its time were not missed.
            measurement.offered, measurement.missed = measurement.offered - measurement.missed, 0
        measurement.values["refusals"] = summary.refusals
        if of_idle is not None:
            # Idle servers used this time beside this load, on the same processors.
            measurement.values["idle_servers_cpu_s"] = of_idle
        note_used(measurement, sampler, roles, start_ns, summary, of_client, of_servers)
        return measurement

    def _fill(
        self, backend: str, workload: Workload, task: FillTask, on_progress: Callable[[Mapping[str, float]], None]
    ) -> Measurement:
        client = self._clients.of(backend)
        roles = self._roles(backend, client)
        with (
            Sampler(roles, flushes=self._stores.flushes) as sampler,
            CpuTimesBeside(([client.pid], _of_servers(roles)), _FILL_INTERVAL_S) as times,
        ):
            start_ns = time.monotonic_ns()
            client.tell({"fill": task.to_json(), "machines": _of_servers(roles)})
            deadline = time.monotonic() + task.seconds_max + _PREPARE_S
            filled = client.hear("filled", deadline, on_progress=on_progress)
        measurement = Measurement(workload=workload, driver=backend, round=1)
        summary = Summary.from_json(filled["summary"])
        measurement.take(summary, is_delivery=False)
        measurement.wall = filled["why"]
        note_used(measurement, sampler, roles, start_ns, summary, *times.between(summary.begin_ns, summary.end_ns))
        measurement.values["from_topics"] = task.first
        measurement.values["disk_bytes"] = self._stores.disk_bytes(backend)
        return measurement

    def _restart(self, backend: str, workload: Workload, dataset: Dataset) -> Measurement:
        client = self._clients.of(backend)
        topics = random.Random(workload.seed).choices(range((dataset.topics + 1) // 2), k=_SAMPLE)
        fresh = self._fresh(dataset)
        began_ns = time.monotonic_ns()
        self._stores.restart(backend)
        client.tell({"probe": topics, "ground": fresh.to_json(), "seconds_max": _RESTART_MAX_S})
        probed = client.hear("probed", time.monotonic() + _RESTART_MAX_S + _OPEN_S)
        measurement = Measurement(workload=workload, driver=backend, round=1)
        for name, value in _READ.items():
            if (at_ns := probed[name]) is not None:
                measurement.values[value] = (at_ns - began_ns) / _SECOND_NS
        if probed["all_ns"] is None:
            measurement.wall = f"not all of {_SAMPLE} topics could be read {_RESTART_MAX_S:g} s after the restart"
        elif probed["written_ns"] is None:
            measurement.wall = f"nothing could be written {_RESTART_MAX_S:g} s after the restart"
        else:
            measurement.count = _SAMPLE
            measurement.seconds = measurement.values["all_read_s"]
        return measurement

    def _fresh(self, dataset: Dataset) -> Dataset:
        """Return a data set with a new token, so that its names are unused."""
        self._used += 1
        return replace(dataset, token=f"{time.time_ns():x}-{self._used}")

    def _roles(self, backend: str, client: GeneratorProcess) -> dict[str, list[int]]:
        return {**self._stores.roles(backend), "client": [client.pid]}

    def _start(self, backend: str) -> GeneratorProcess:
        return GeneratorProcess({"url": self._stores.url(backend)}, self._command)


def _deadline(workload: Workload) -> float:
    """Return when a load must have sent its summary: after the drain it has time to compute it."""
    return time.monotonic() + workload.seconds + 3 * _DRAIN_S


def _of_servers(roles: Mapping[str, Sequence[int]]) -> list[int]:
    return [pid for role, pids in roles.items() if role != "client" for pid in pids]


def note_used(
    measurement: Measurement,
    sampler: Sampler,
    roles: dict[str, list[int]],
    start_ns: int,
    summary: Summary,
    of_client: float | None,
    of_servers: float | None,
) -> None:
    """Record what processes used: processor seconds, peak memory, and the usage in each second.

    Entries are as wide as those of the summary's series, since a result with fills of hours is written after each case.
    """
    if of_client is not None:
        measurement.values["client_cpu_s"] = of_client
        measurement.generator_cores = of_client / summary.seconds if summary.seconds else None
    if (flushes := sampler.flushes_per_s(summary.begin_ns, summary.end_ns)) is not None:
        measurement.values[FLUSHES] = flushes
    if len(roles) > 1 and of_servers is not None:
        measurement.values["servers_cpu_s"] = of_servers
    held = {role: sampler.rss_bytes_max(role) for role in roles}
    measurement.values |= {f"{role}_rss_bytes_max": size for role, size in held.items() if size is not None}
    # An embedded store uses the memory of its client's process.
    of_store = [size for role, size in held.items() if size is not None and (role != "client" or len(roles) == 1)]
    measurement.values["store_rss_bytes_max"] = sum(of_store)
    if summary.series_width_s > 1:
        measurement.values[SERIES_WIDTH] = summary.series_width_s
    last = (summary.end_ns - start_ns) // _SECOND_NS
    for second, usages in sampler.series(start_ns, summary.series_width_s).items():
        if second <= last:
            measurement.series.setdefault(second, {}).update(usages)
