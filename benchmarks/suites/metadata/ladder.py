"""One stage's ladder in a run of `hedwig-bench metadata`. At each step stores are filled, warmed up and measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hedwig.benchmarks.load.workloads import Choice, Workload
from hedwig.benchmarks.runs.results import FILLED_ANEW, LEFT_BEHIND, WARM_UP, Measurement
from hedwig.benchmarks.runs.start_times import StartTimes
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.servers import RESTARTED, StoreServers
from hedwig.benchmarks.suites.metadata.lines import filling, named
from hedwig.benchmarks.suites.metadata.progress import Progress
from hedwig.benchmarks.suites.metadata.sizes import CLAIMING, MetadataSizes, Stage, Step
from hedwig.cli.dev import DevError

__all__ = ["Ladder"]

_WARMING_SHARE: Final = 0.4
"""The length of a warm-up load, as a share of the load's length."""


@dataclass(slots=True, kw_only=True)
class Ladder:
    """Runs the steps of a stage whose servers run.

    In each round every workload runs on one backend after the other, so that both sides of a ratio saw the same
    machine. Every other round uses the opposite order. Every other step fills the stores in the opposite order.
    A store is filled once the other backends' servers are idle. The first load of a step waits until all servers are.
    A backend is lost if it meets a wall in filling, or if its server does not come up again. A lost backend has no
    further cases here, and its servers are ended.

    keep: receives each measurement. say_for_now: prints progress that the next line replaces.
    """

    stage: Stage
    backends: Sequence[str]
    sizes: MetadataSizes
    seed: int
    stores: StoreServers
    cases: MetadataCases
    progress: Progress
    times: StartTimes
    keep: Callable[[Measurement], None]
    say: Callable[[str], None]
    say_for_now: Callable[[str], None]
    _lost: dict[str, str] = field(default_factory=dict)
    _filled: dict[str, int] = field(default_factory=dict)

    def carry_out(self) -> None:
        """Run all steps that have cases left."""
        for step in self.stage.steps:
            if self._backends() and self.progress.is_missing(self.stage, step):
                self._step(step)

    def give_up(self, backend: str, why: str) -> None:
        """Lose a backend for a reason that none of its cases shows. Its next case gets `why` as its wall."""
        left = self.progress.first_left(self.stage, backend)
        if left is not None:
            workload, number = left
            wall = Measurement(workload=workload, driver=backend, round=number, wall=why)
            self._note(self.times.noted(lambda: wall))
        self._lose(backend, why)

    def _step(self, step: Step) -> None:
        """Fill the stores up to a step, and measure its cases."""
        stage = self.stage
        for backend in self._backends(turned=stage.steps.index(step) % 2 == 1):
            self._fill(step, backend)
        if not self._backends():
            return
        self.say("    waiting until all servers are idle")
        settling = dict.fromkeys(self.backends, self.cases.settle())
        warmed = self._warm_up(step)
        claimed = dict.fromkeys(self.backends, step.before // 2)
        for number in range(1, self.sizes.rounds + 1):
            for workload in step.workloads:
                for backend in self._backends(turned=number % 2 == 0):
                    if self.progress.measured(stage, backend, workload, number) is None:
                        self._announce(backend, workload, number)
                        dataset = self._dataset(step, claimed[backend])
                        claimed[backend] += step.claims if workload.among in CLAIMING else 0
                        measurement = self._measured(backend, workload, dataset, number)
                        measurement.values |= settling.pop(backend, {})
                        measurement.reported |= warmed.pop(backend, {})
                        self._keep(measurement)
        restart = stage.restart(step, self.seed)
        for backend in self._backends():
            if backend in RESTARTED and self.progress.measured(stage, backend, restart) is None:
                self._announce(backend, restart, 1)
                self._keep(self._restarted(backend, restart, self._dataset(step, 0)))

    def _measured(self, backend: str, workload: Workload, dataset: Dataset, number: int) -> Measurement:
        return self.times.noted(lambda: self.cases.measure(backend, workload, dataset, number))

    def _restarted(self, backend: str, workload: Workload, dataset: Dataset) -> Measurement:
        return self.times.noted(lambda: self.cases.restart(backend, workload, dataset))

    # ------------------------------------------------------------------------------------------------- filling

    def _fill(self, step: Step, backend: str) -> None:
        stage, workload = self.stage, self.stage.fill(step, self.seed)
        before = self.progress.measured(stage, backend, workload)
        if before is not None and before.wall is not None:
            self._lose(backend, before.wall)
            return
        first = self._filled.get(backend, 0)
        settling = self._settle_others(backend)
        self._announce(backend, workload, 1)
        if first == 0 and stage.wide:
            # Wide topics come first: making them warms up servers that have just started.
            wide = FillTask(first=0, last=0, subscribers=0, wide=stage.wide)
            measurement = self._made(backend, workload, wide, stored=None)
            if measurement.wall is not None:
                self._lose_filled(measurement, is_new=before is None)
                return
        stored = FillTask(first=0, last=first, subscribers=stage.subscribers).records
        task = FillTask(first=first, last=step.topics, subscribers=stage.subscribers)
        measurement = self._made(backend, workload, task, stored=stored)
        self._filled[backend] = step.topics
        self.progress.note_stored(stage, backend, stored + task.records)
        measurement.values |= settling
        if first < step.before:
            measurement.reported[FILLED_ANEW] = f"made from {first:,} topics on, because the run was resumed"
        if measurement.wall is not None:
            self._lose_filled(measurement, is_new=before is None)
        elif before is None:
            # If an earlier run has the figures of this fill, only its records are needed again.
            self._keep(measurement)

    def _settle_others(self, backend: str) -> dict[str, float]:
        """Wait until the servers of other backends are idle, so that work after their fills does not slow this one."""
        if not self.stores.idle(backend):
            return {}
        self.say(f"    waiting until the servers beside {backend} are idle")
        return self.cases.settle(beside=backend)

    def _made(self, backend: str, workload: Workload, task: FillTask, *, stored: int | None) -> Measurement:
        """Fill a store that holds `stored` records. None: the new records are not counted as stored."""
        task = replace(task, seconds_max=self.sizes.fill_limit_s(task.records))

        def tell(progress: Mapping[str, float]) -> None:
            if stored is not None:
                self.progress.note_stored(self.stage, backend, stored + int(progress["records"]))
            self.say_for_now(f"    [{self.progress.left(self._lost, self.stage)}] {backend}: {filling(progress)}")

        return self.times.noted(lambda: self.cases.fill(backend, workload, task, on_progress=tell))

    def _lose_filled(self, measurement: Measurement, *, is_new: bool) -> None:
        """Lose a backend whose store could not be filled. Its next case gets the wall if the fill is done already."""
        assert measurement.wall is not None, "it could not be filled"
        if is_new:
            self._note(measurement)
            self._lose(measurement.driver, measurement.wall)
        else:
            self.give_up(measurement.driver, f"filling its store again: {measurement.wall}")

    # ------------------------------------------------------------------------------------------------- warming up

    def _warm_up(self, step: Step) -> dict[str, dict[str, str]]:
        """Run the closed loops of a step once for a short time, without figures.

        A virtual machine that has only just started, or has only been filled, compiles the code of a load in its first
        seconds. That takes processor time which the load needs. Round 0 has keys of its own.

        Returns: for backends with trouble in the warm-up, what their next measurement must report.
        """
        loops = [each for each in step.workloads if not (each.is_open_loop or each.operations)]
        # With popular keys an operation runs the same code, so it is warmed up only once.
        uniform = {each.name for each in loops if each.choice is Choice.UNIFORM}
        loops = [each for each in loops if each.choice is Choice.UNIFORM or each.name not in uniform]
        reports: dict[str, dict[str, str]] = {}
        for backend in self._backends():
            if self.progress.is_any_missing(self.stage, step, backend):
                self.say(f"    {backend}: warming up")
                if trouble := self._warm_up_one(backend, loops, self._dataset(step, 0)):
                    reports[backend] = {WARM_UP: f"in the warm-up: {'; '.join(trouble)}"}
        return reports

    def _warm_up_one(self, backend: str, loops: Sequence[Workload], dataset: Dataset) -> list[str]:
        """Warm up one backend and return what went wrong. A backend whose server does not come up again is lost."""
        trouble: list[str] = []
        for workload in loops:
            short = replace(workload, seconds=_WARMING_SHARE * workload.seconds, warmup_s=0.0)
            measurement = self.cases.measure(backend, short, dataset, 0)
            if (why := measurement.wall or measurement.reported.get(LEFT_BEHIND)) is not None:
                trouble.append(f"{workload.name}: {why}")
                self.say(f"    {trouble[-1]}")
            if (why := self._mend(backend)) is not None:
                self.give_up(backend, f"in the warm-up: {'; '.join([*trouble, why])}")
                break
        return trouble

    # ------------------------------------------------------------------------------------------------- the rest

    def _backends(self, *, turned: bool = False) -> list[str]:
        """Return the backends that are not lost; `turned`: in the opposite order."""
        left = [backend for backend in self.backends if backend not in self._lost]
        return left[::-1] if turned else left

    def _dataset(self, step: Step, first_claim: int) -> Dataset:
        return Dataset(
            topics=step.topics,
            subscribers=self.stage.subscribers,
            drawn=self.sizes.drawn,
            first_claim=first_claim,
            claims=step.claims,
        )

    def _announce(self, backend: str, workload: Workload, number: int) -> None:
        left = self.progress.left(self._lost, self.stage)
        self.say(f"[{left}] {self.stage.durability}, round {number}: {backend}, {named(workload)}")

    def _note(self, measurement: Measurement) -> None:
        measurement.on = self.stage.durability
        self.progress.note(measurement)
        self.keep(measurement)

    def _keep(self, measurement: Measurement) -> None:
        """Record a measurement, and start servers again that ended meanwhile."""
        self._note(measurement)
        if (why := self._mend(measurement.driver)) is not None:
            lose = self.give_up if measurement.wall is None else self._lose
            lose(measurement.driver, why)

    def _mend(self, backend: str) -> str | None:
        """Start servers again that ended; return why one does not come up, or None."""
        if self.stores.ended(backend):
            try:
                self.stores.mend(backend)
            except DevError as exc:
                return str(exc)
        return None

    def _lose(self, backend: str, why: str) -> None:
        self._lost[backend] = why
        self.say(f"    {backend} has no further cases on these servers: {why}")
        try:
            self.cases.end(backend)
        except DevError as exc:
            self.say(f"    cannot end its servers: {exc}")
