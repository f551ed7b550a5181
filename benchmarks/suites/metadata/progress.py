"""The progress of a run of `hedwig-bench metadata`: what its result has, and how long the rest will take."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.stores.servers import RESTARTED
from hedwig.benchmarks.suites.metadata.sizes import MetadataSizes, Stage, Step

__all__ = ["Progress"]

_START_S: Final = 45.0
_RESTART_S: Final = 40.0
_SETTLING_S: Final = 5.0
_BESIDE_S: Final = 1.0
_FILLED_PER_S: Final = 9_000
"""With the seconds above: estimates of how long things take, corrected by the pace of the run."""


class Progress:
    """What is done, walls included, and what remains. Rounds count from 1; fills and restarts have one round.

    The result does not say what a stage's stores hold. The ladder, which fills them, reports that by `note_stored`.
    """

    def __init__(
        self, stages: Sequence[Stage], backends: Sequence[str], sizes: MetadataSizes, seed: int, result: Result
    ) -> None:
        self._stages = stages
        self._backends = backends
        self._sizes = sizes
        self._seed = seed
        self._began = time.monotonic()
        self._stored: dict[tuple[str, int, str], int] = {}
        self._done: dict[tuple[str, str, str, int], Measurement] = {}
        for measurement in result.measurements:
            self.note(measurement)
        self._planned_s = self._left_s({})

    def note(self, measurement: Measurement) -> None:
        """Record a measurement as done."""
        self._done[_key(measurement.on, measurement.driver, measurement.workload, measurement.round)] = measurement

    def note_stored(self, stage: Stage, backend: str, records: int) -> None:
        """Record the number of records in a store, without those of wide topics."""
        self._stored[stage.durability, stage.subscribers, backend] = records

    def measured(self, stage: Stage, backend: str, workload: Workload, number: int = 1) -> Measurement | None:
        """Return the measurement of a case if it is done, else None."""
        return self._done.get(_key(stage.durability, backend, workload, number))

    def is_missing(self, stage: Stage, step: Step | None = None) -> bool:
        """Say whether a stage, or one of its steps, has anything left to measure."""
        return any(
            any(self._left(stage, each, backend))
            for backend in self._backends
            for each in stage.steps
            if step is None or each is step
        )

    def is_any_missing(self, stage: Stage, step: Step, backend: str) -> bool:
        """Say whether a backend still has to run a load of a step."""
        rounds = range(1, self._sizes.rounds + 1)
        return any(self.measured(stage, backend, each, number) is None for number in rounds for each in step.workloads)

    def first_left(self, stage: Stage, backend: str) -> tuple[Workload, int] | None:
        """Return a backend's next workload in a stage, and its round; None if all are done."""
        left = (each for step in stage.steps for each in self._left(stage, step, backend))
        return next(((workload, number) for workload, number, _ in left), None)

    def left(self, lost: Mapping[str, str], stage: Stage | None = None) -> str:
        """Return in words how much is done and how long the rest will take.

        Args: stage - the one whose servers run; lost - backends that have no further cases there.
        """
        left_s = self._left_s(lost, stage)
        done_s = max(0.0, self._planned_s - left_s)
        pace = (time.monotonic() - self._began) / done_s if done_s else 1.0
        share = done_s / self._planned_s if self._planned_s else 1.0
        return f"{share:.0%}, about {left_s * pace / 60:.0f} min left"

    def _left_s(self, lost: Mapping[str, str], current: Stage | None = None) -> float:
        total = 0.0
        for stage in self._stages:
            backends = [backend for backend in self._backends if not (stage is current and backend in lost)]
            stage_s = sum(self._left_s_of(stage, backend) for backend in backends)
            total += stage_s + (_START_S if stage_s and stage is not current else 0.0)
        return total

    def _left_s_of(self, stage: Stage, backend: str) -> float:
        """Return the seconds that the rest of a stage takes one backend, with the fills up to each unfinished step."""
        total = 0.0
        stored = self._stored.get((stage.durability, stage.subscribers, backend), 0)
        for step in stage.steps:
            costs = [seconds for _, _, seconds in self._left(stage, step, backend)]
            if costs:
                records = FillTask(first=0, last=step.topics, subscribers=stage.subscribers).records
                total += sum(costs) + max(0, records - stored) / _FILLED_PER_S
                stored = max(stored, records)
        return total

    def _left(self, stage: Stage, step: Step, backend: str) -> Iterator[tuple[Workload, int, float]]:
        """Yield each workload that is not done, its round, and its seconds; nothing after a wall in filling.

        The seconds of a fill do not include making the records, which may be needed even if the fill is done.
        """
        for each in stage.steps:
            workload = stage.fill(each, self._seed)
            fill = self.measured(stage, backend, workload)
            if fill is not None and fill.wall is not None:
                return
            if each is step:
                if fill is None:
                    yield workload, 1, _SETTLING_S
                break
        for number in range(1, self._sizes.rounds + 1):
            for workload in step.workloads:
                if self.measured(stage, backend, workload, number) is None:
                    yield workload, number, workload.seconds + _BESIDE_S
        if backend in RESTARTED:
            workload = stage.restart(step, self._seed)
            if self.measured(stage, backend, workload) is None:
                yield workload, 1, _RESTART_S


def _key(durability: str, backend: str, workload: Workload, number: int) -> tuple[str, str, str, int]:
    return durability, backend, json.dumps(workload.to_json(), sort_keys=True), number
