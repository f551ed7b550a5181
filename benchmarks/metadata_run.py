"""A run of `hedwig-bench metadata`: all stages, into one result, which is written after each case and gone on with."""

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from benchmarks.metadata_cases import MetadataCases
from benchmarks.metadata_ground import FillTask, Ground
from benchmarks.metadata_places import RESTARTED, MetadataPlaces
from benchmarks.metadata_progress import Progress
from benchmarks.metadata_suite import CLAIMING, FILL, RESTART, MetadataSizes, Stage, Step
from benchmarks.results import Measurement, Result
from benchmarks.workloads import Choice, Workload
from cli.dev import DevError

__all__ = ["MetadataRun", "named"]

_WARMING_SHARE: Final = 0.4
"""Of the length of a load."""


@dataclass(slots=True, kw_only=True)
class MetadataRun:
    """Carries stages out. What the result has already, walls included, is not measured again.

    In each round every workload goes to one backend after the other, in the opposite order in every other round, so
    that both sides of a ratio saw the same machine. Stores are filled in the opposite order in every other step, and
    the first load of a step waits until all servers have digested that. A backend that meets a wall in filling, or
    whose server does not come up again, has no further cases in that stage. `directory` gets the servers, and nothing
    of them stays.
    """

    stages: Sequence[Stage]
    backends: Sequence[str]
    sizes: MetadataSizes
    seed: int
    directory: Path
    result: Result
    path: Path
    say: Callable[[str], None]
    _progress: Progress = field(init=False)
    _lost: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._progress = Progress(self.stages, self.backends, self.sizes, self.seed, self.result)

    def carry_out(self) -> None:
        """Measure all that is missing; Ctrl-C ends it early, and what was measured is kept.

        Raises: DevError, HedwigError - servers or stores do not come up.
        """
        try:
            for stage in self.stages:
                if self._progress.is_missing(stage):
                    self._carry_out(stage)
            self.result.is_complete = True
        except KeyboardInterrupt:
            self.say("interrupted; what was measured is kept")
        finally:
            with contextlib.suppress(OSError):  # There may be none yet, or another program's files in it.
                self.directory.rmdir()
        self.result.write(self.path)

    def _carry_out(self, stage: Stage) -> None:
        self._lost = {}
        places = MetadataPlaces(
            self.directory / f"{stage.durability}-{stage.subscribers}",
            self.backends,
            heap_mb=self.sizes.heap_mb,
            durability=stage.durability,
            topics_max=max((*self.sizes.topics, *self.sizes.unsynced_topics)),
            progress=lambda line: self.say(f"    {line}"),
        )
        self.say(f"[{self._progress.left({})}] starting servers: {stage.durability}")
        with places:
            places.up()
            self.result.environment.setdefault("jvm_flags", {})[stage.durability] = places.jvm_flags()
            with MetadataCases(places, sys.executable) as cases:
                climb = _Climb(self, stage, places, cases)
                for step in stage.steps:
                    if self._progress.is_missing(stage, step):
                        climb.step(step)


class _Climb:
    """The way up one stage's ladder."""

    def __init__(self, run: MetadataRun, stage: Stage, places: MetadataPlaces, cases: MetadataCases) -> None:
        self._run = run
        self._stage = stage
        self._places = places
        self._cases = cases
        self._progress = run._progress
        self._lost = run._lost
        self._filled = dict.fromkeys(run.backends, 0)

    def step(self, step: Step) -> None:
        """Fill the stores up to a step, and carry its cases out."""
        stage, run = self._stage, self._run
        for backend in self._backends(turned=stage.steps.index(step) % 2 == 1):
            self._fill(step, backend)
        run.say("    waiting until all servers are idle")
        settling = dict.fromkeys(run.backends, self._cases.settle())
        self._warm_up(step)
        claimed = dict.fromkeys(run.backends, step.before // 2)
        for number in range(1, run.sizes.rounds + 1):
            for workload in step.workloads:
                for backend in self._backends(turned=number % 2 == 0):
                    if self._progress.found(stage, backend, workload, number) is None:
                        self._announce(backend, workload, number)
                        ground = self._ground(step, claimed[backend])
                        claimed[backend] += step.claims if workload.among in CLAIMING else 0
                        measurement = self._cases.measure(backend, workload, ground, number)
                        measurement.values |= settling.pop(backend, {})
                        self._keep(backend, measurement)
        restart = stage.restart(step, run.seed)
        for backend in self._backends():
            if backend in RESTARTED and self._progress.found(stage, backend, restart) is None:
                self._announce(backend, restart, 1)
                self._keep(backend, self._cases.restart(backend, restart, self._ground(step, 0)))

    def _warm_up(self, step: Step) -> None:
        """Carry the closed loops of a step out once for a short time, which no figure is of.

        Virtual machines that have just been started, or have only been filled, translate what a load has them do in
        its first seconds, with processors that it needs. Round 0 has keys of its own.
        """
        run = self._run
        loops = [each for each in step.workloads if not (each.is_open_loop or each.operations)]
        for backend in self._backends():
            if not self._progress.is_any_missing(self._stage, step, backend):
                continue
            run.say(f"    {backend}: warming up")
            for workload in loops:
                short = replace(workload, seconds=_WARMING_SHARE * workload.seconds, warmup_s=0.0)
                self._cases.measure(backend, short, self._ground(step, 0), 0)
                self._mend(backend)
                if backend in self._lost:
                    break

    def _backends(self, *, turned: bool = False) -> list[str]:
        """Return those that are left, now."""
        left = [backend for backend in self._run.backends if backend not in self._lost]
        return left[::-1] if turned else left

    def _fill(self, step: Step, backend: str) -> None:
        stage, run = self._stage, self._run
        workload = stage.fill(step, run.seed)
        before = self._progress.found(stage, backend, workload)
        if before is not None and before.wall is not None:
            self._lost[backend] = before.wall
            return
        is_first = self._filled[backend] == 0
        task = FillTask(
            first=self._filled[backend],
            last=step.topics,
            subscribers=stage.subscribers,
        )
        self._announce(backend, workload, 1)
        if is_first and stage.wide:
            # Before the others: it warms up servers that have just started.
            wide = FillTask(first=0, last=0, subscribers=0, wide=stage.wide)
            measurement = self._cases.fill(backend, workload, self._limited(wide))
            if measurement.wall is not None:
                self._keep(backend, measurement)
                self._lose(backend, measurement.wall)
                return
        measurement = self._cases.fill(backend, workload, self._limited(task))
        self._filled[backend] = step.topics
        if before is None:
            self._keep(backend, measurement)
        # With figures from before, only the records are needed again.
        if measurement.wall is not None:
            self._lose(backend, measurement.wall)

    def _limited(self, task: FillTask) -> FillTask:
        return replace(task, seconds_max=self._run.sizes.fill_limit_s(task.records))

    def _ground(self, step: Step, first_claim: int) -> Ground:
        return Ground(
            topics=step.topics,
            subscribers=self._stage.subscribers,
            drawn=self._run.sizes.drawn,
            first_claim=first_claim,
            claims=step.claims,
        )

    def _announce(self, backend: str, workload: Workload, number: int) -> None:
        left = self._progress.left(self._lost, self._stage)
        self._run.say(f"[{left}] {self._stage.durability}, round {number}: {backend}, {named(workload)}")

    def _keep(self, backend: str, measurement: Measurement) -> None:
        """Write down what was measured; start servers again that ended meanwhile."""
        run = self._run
        measurement.on = self._stage.durability
        run.result.measurements.append(measurement)
        self._progress.note(measurement)
        run.result.write(run.path)
        run.say(f"    {_told(measurement)}")
        self._mend(backend)

    def _mend(self, backend: str) -> None:
        if self._places.ended(backend):
            try:
                self._places.mend(backend)
            except DevError as exc:
                self._lose(backend, str(exc))

    def _lose(self, backend: str, why: str) -> None:
        self._lost[backend] = why
        self._run.say(f"    {backend} has no further cases on these servers: {why}")


def named(workload: Workload) -> str:
    """Return what a case is, in a line."""
    parts = [f"{workload.name}, {workload.topics:,} topics × {workload.subscribers}"]
    if workload.name in (FILL, RESTART):
        return parts[0]
    if workload.keys:
        parts.append(f"{workload.in_flight // workload.keys} writers per key")
    if workload.wide:
        parts.append(f"{workload.wide:,} subscriptions")
    if workload.choice is Choice.ZIPF:
        parts.append("zipf")
    load = f"{workload.rate_per_s:,.0f}/s offered" if workload.is_open_loop else f"{workload.in_flight:,} in flight"
    return ", ".join([*parts, load])


def _told(measurement: Measurement) -> str:
    """Return a line on what came out."""
    told: list[str] = []
    response = measurement.histograms.get("response")
    if "all_read_s" in measurement.values:
        told.append(f"all read after {measurement.values['all_read_s']:.1f} s")
        if "written_s" in measurement.values:
            told.append(f"written after {measurement.values['written_s']:.1f} s")
    elif response is not None and response.count:
        times = response.percentiles_us((50.0, 99.0))
        told.append(f"{measurement.rate_per_s:,.0f}/s, {times[50.0] / 1000:.1f} ms, p99 {times[99.0] / 1000:.1f} ms")
    elif not measurement.count and measurement.wall is None and not measurement.failed:
        told.append("nothing was finished in time")
    return "; ".join([*told, *measurement.notes()])
