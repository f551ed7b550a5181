"""How a case runs on a hub whose metadata are in a store with many topics."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from hedwig.benchmarks.drivers.drivers import GeneratorDriver, MeasuredHub
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.load.workloads import FILL, Operation, Workload
from hedwig.benchmarks.machine.jvm_flags import AS_IN_PRODUCTION, NoteFlags
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.servers import SYNCED, terms
from hedwig.benchmarks.suites.hub.process import HubProcess
from hedwig.benchmarks.suites.hub.stored_dataset import StoredDataset
from hedwig.benchmarks.suites.hub.stored_sizes import FAIL_OVER, WARM, StoredSizes, warming
from hedwig.benchmarks.suites.hub.watch import watched
from hedwig.errors import HedwigError

__all__ = ["StoredHubs"]

_PREPARE_S: Final = 1800.0
_DRAIN_S: Final = 600.0
"""A load that takes all topics at once only begins the operations. All are in flight when the load ends."""
_PREPARING: Final = 100
_SECOND_NS: Final = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class StoredHubs:
    """Measures cases on servers that are made anew for each step of each round; `with` ends them.

    The hub is standalone with its messages on its own disk, so metadata are most of a case's cost. Each case has a
    process of its own. All use the same data directory, since a store knows one standalone hub.
    note_flags: receives the flags of the stores' virtual machines, once they run.
    """

    directory: Path
    backends: Sequence[str]
    sizes: StoredSizes
    settings: Sequence[str] = ()
    processes: int = 1
    progress: Callable[[str], None]
    note_flags: NoteFlags
    _servers: ExitStack = field(default_factory=ExitStack)
    _dataset: StoredDataset | None = None
    _step: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._servers.close()

    def measure(self, case: Case, number: int) -> Measurement:
        """Measure a case as round `number`. An error becomes the measurement's wall."""
        workload, dataset = case.workload, None
        try:
            dataset = self._dataset_of(number, workload.topics)
            fill = dataset.filled(case.on, _fill_of(workload))
            if workload.name == FILL:
                measurement = replace(fill, workload=workload, driver=case.driver, round=number)
            else:
                settling = dataset.ready(case.on)
                measurement = self._measure(case, dataset, number)
                measurement.values |= settling
        except HedwigError as exc:
            measurement = Measurement(workload=workload, driver=case.driver, on=case.on, round=number, wall=str(exc))
        if dataset is not None and (ended := dataset.stores.ended(case.on)):
            measurement.wall = "; ".join([*ended, *([measurement.wall] if measurement.wall else [])])
        return measurement

    def terms(self) -> dict[str, Any]:
        """Return the terms that hold for all numbers."""
        return {
            "hub": "ours, standalone, a fresh process for each case, its messages on its own disk",
            "acknowledged": "once it is synced to the hub's disk; what it needed of the metadata before, as below",
            "metadata": terms(self.backends, self.sizes.heap_mb, SYNCED, max(self.sizes.topics)),
            "virtual machines": AS_IN_PRODUCTION,
            "a topic of the store": "an empty record of ledger ranges, one subscription, no owner: as hubs release it",
            "sizes": self.sizes.to_json(),
        }

    # ----------------------------------------------------------------------------------------------------- procedures

    def _dataset_of(self, number: int, topics: int) -> StoredDataset:
        if self._dataset is None or self._step != (number, topics):
            self._servers.close()
            self._dataset = None
            folder = self.directory / f"stored-{number}-{topics}"
            self._dataset = StoredDataset(folder, self.backends, self.sizes, self._servers, self.progress)
            self._step = number, topics
            self.note_flags(SYNCED, self._dataset.stores.jvm_flags())
        return self._dataset

    def _measure(self, case: Case, dataset: StoredDataset, number: int) -> Measurement:
        workload, driver = case.workload, GeneratorDriver(case.driver, self.processes, _DRAIN_S)
        hub = HubProcess(dataset.hub_directory(case.on), (f"metadata={dataset.stores.url(case.on)}", *self.settings))
        with hub:
            subject = self._subject(hub, dataset, case.on)
            # Virtual machines compile code that runs often. While a kind of request is new to a region server, its
            # compilers use more processor time than its handlers.
            self._carry_out(warming(workload), subject)
            if workload.name not in (WARM, FAIL_OVER):
                return self._noted(watched(hub, lambda: driver.measure(workload, subject, number)), dataset, case.on)
            self._prepare(workload, subject)
            if workload.name == WARM:
                return self._noted(watched(hub, lambda: driver.measure(workload, subject, number)), dataset, case.on)
            lost_ns = time.monotonic_ns()
            hub.kill()
            hub.start()
            serving_ns = time.monotonic_ns()
            subject = self._subject(hub, dataset, case.on)
            measurement = watched(hub, lambda: driver.measure(workload, subject, number))
        _note_fail_over(measurement, lost_ns, serving_ns)
        return self._noted(measurement, dataset, case.on)

    def _subject(self, hub: HubProcess, dataset: StoredDataset, backend: str) -> MeasuredHub:
        servers = dataset.stores.roles(backend)
        all_of_them = [pid for pids in servers.values() for pid in pids]
        return MeasuredHub(hub.address, hub.pid, roles={"stores": all_of_them, **servers})

    def _noted(self, measurement: Measurement, dataset: StoredDataset, backend: str) -> Measurement:
        measurement.values["disk_bytes"] = dataset.stores.disk_bytes(backend)
        return measurement

    def _prepare(self, workload: Workload, subject: MeasuredHub) -> None:
        """Publish once to each topic of a workload."""
        once = replace(workload, mix={Operation.PUBLISH.value: 1.0}, operations=workload.sample, in_flight=_PREPARING)
        self._carry_out(replace(once, rate_per_s=0.0, seconds=_PREPARE_S), subject)

    def _carry_out(self, workload: Workload, subject: MeasuredHub) -> None:
        """Run a load that does not count. Raises BenchmarkError - not all of its operations succeeded."""
        done = GeneratorDriver("raw", drain_s=_DRAIN_S).measure(workload, subject, 0)
        if done.count < workload.operations:
            errors = ", ".join(f"{failed} × {error}" for error, failed in done.errors.items()) or "time was over"
            raise BenchmarkError(f"preparing {workload.operations:,} topics failed: {errors}")


def _fill_of(workload: Workload) -> Workload:
    """Return the workload under which the filling of a case's store is recorded, the same for all its cases."""
    return Workload(
        name=FILL, mix={Operation.CREATE.value: 1.0}, topics=workload.topics, subscribers=1, seed=workload.seed
    )


def _note_fail_over(measurement: Measurement, lost_ns: int, serving_ns: int) -> None:
    """Record how long after the kill the hub served again, and all its topics did.

    The second counts as if all topics had been asked for as soon as the hub served.
    """
    serves_s = (serving_ns - lost_ns) / _SECOND_NS
    measurement.values["hub_serves_s"] = serves_s
    # If a topic failed, it is unknown when it was served again.
    if measurement.count >= measurement.workload.operations:
        measurement.values["all_served_s"] = serves_s + measurement.histograms["response"].max_us / 1e6
