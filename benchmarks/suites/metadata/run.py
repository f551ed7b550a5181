"""A run of `hedwig-bench metadata`: all stages in one result. It is written after each case, and can be resumed."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.jvm_flags import note_flags
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.start_times import StartTimes
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.servers import StoreServers
from hedwig.benchmarks.suites.metadata.disk_need import disk_need, disk_text
from hedwig.benchmarks.suites.metadata.ladder import Ladder
from hedwig.benchmarks.suites.metadata.lines import result_line
from hedwig.benchmarks.suites.metadata.progress import Progress
from hedwig.benchmarks.suites.metadata.sizes import MetadataSizes, Stage
from hedwig.cli.dev import DevError
from hedwig.cli.dev.locks import locked

__all__ = ["MetadataRun"]

_LOCK: Final = "lock"


@dataclass(slots=True, kw_only=True)
class MetadataRun:
    """Runs stages. It does not measure again what the result has already, walls included.

    A backend whose servers do not come up has a wall in that stage. The servers keep their data in `directory`, and the
    run removes all of it. It first ends and removes servers that a killed run has left there.
    say_for_now: prints progress that the next line replaces.
    """

    stages: Sequence[Stage]
    backends: Sequence[str]
    sizes: MetadataSizes
    seed: int
    directory: Path
    result: Result
    path: Path
    say: Callable[[str], None]
    say_for_now: Callable[[str], None]
    _progress: Progress = field(init=False)
    _times: StartTimes = field(default_factory=StartTimes)

    def __post_init__(self) -> None:
        self._progress = Progress(self.stages, self.backends, self.sizes, self.seed, self.result)

    def carry_out(self) -> None:
        """Measure all that is missing. Ctrl-C ends the run early, and the result keeps what was measured.

        Raises: BenchmarkError - another run uses the directory, or the remains of an earlier run cannot be removed, or
            the disk is too small; DevError - no server can be started on this machine; HedwigError.
        """
        with self._alone():
            try:
                for stage in self.stages:
                    self._stores(stage).clear()
                left = [stage for stage in self.stages if self._progress.is_missing(stage)]
                if left:
                    self.say(disk_text(self.directory, disk_need(left, self.backends)))
                for stage in left:
                    self._carry_out(stage)
                self.result.is_complete = True
            except KeyboardInterrupt:
                self.say("interrupted; what was measured is kept")
        self.result.write(self.path)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the directory. Another run that began there would take these servers for remains of a killed run."""
        lock = self.directory / _LOCK
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(lock, 0.0))
            except DevError:
                raise BenchmarkError(
                    f"another run is at work in {self.directory}: wait for it, or give another --run"
                ) from None
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # Another program's files may be in it.
                    self.directory.rmdir()

    def _stores(self, stage: Stage) -> StoreServers:
        return StoreServers(
            self.directory / f"{stage.durability}-{stage.subscribers}",
            self.backends,
            heap_mb=self.sizes.heap_mb,
            durability=stage.durability,
            topics_max=self.sizes.topics_max,
            progress=lambda line: self.say(f"    {line}"),
        )

    def _carry_out(self, stage: Stage) -> None:
        self.say(f"[{self._progress.left({})}] starting servers: {stage.durability}")
        with self._stores(stage) as stores:
            absent = stores.up_each()
            note_flags(self.result.environment, stage.durability, stores.jvm_flags())
            with MetadataCases(stores, sys.executable) as cases:
                climb = Ladder(
                    stage=stage,
                    backends=self.backends,
                    sizes=self.sizes,
                    seed=self.seed,
                    stores=stores,
                    cases=cases,
                    progress=self._progress,
                    times=self._times,
                    keep=self._keep,
                    say=self.say,
                    say_for_now=self.say_for_now,
                )
                for backend, why in absent.items():
                    climb.give_up(backend, f"it did not come up: {why}")
                climb.carry_out()

    def _keep(self, measurement: Measurement) -> None:
        """Append a measurement to the result, write the result, and print a line on it."""
        self.result.measurements.append(measurement)
        self.result.write(self.path)
        self.say(f"    {result_line(measurement)}")
