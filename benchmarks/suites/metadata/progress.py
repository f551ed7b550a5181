"""How far a run of `hedwig-bench metadata` has come: what its result has, and how long the rest will take."""

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
"""How long things take, until it shows how long they do."""


class Progress:
    """What is done, walls included, and what is left. Rounds count from 1; fills and restarts have one.

    What a stage's stores hold is not in the result: who fills them tells.
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
        """Take note that something was measured."""
        self._done[_key(measurement.on, measurement.driver, measurement.workload, measurement.round)] = measurement

    def note_stored(self, stage: Stage, backend: str, records: int) -> None:
        """Take note of how many records are in a store by now, wide topics left out."""
        self._stored[stage.durability, stage.subscribers, backend] = records

    def found(self, stage: Stage, backend: str, workload: Workload, number: int = 1) -> Measurement | None:
        """Return what was measured already."""
        return self._done.get(_key(stage.durability, backend, workload, number))

    def is_missing(self, stage: Stage, step: Step | None = None) -> bool:
        """Say whether anything is left to do in a stage, or in one of its steps."""
        return any(
            any(self._left(stage, each, backend))
            for backend in self._backends
            for each in stage.steps
            if step is None or each is step
        )

    def is_any_missing(self, stage: Stage, step: Step, backend: str) -> bool:
        """Say whether a backend has a load of a step left."""
        rounds = range(1, self._sizes.rounds + 1)
        return any(self.found(stage, backend, each, number) is None for number in rounds for each in step.workloads)

    def first_left(self, stage: Stage, backend: str) -> tuple[Workload, int] | None:
        """Return what a backend has to do next in a stage, and as which round; None if nothing is left."""
        left = (each for step in stage.steps for each in self._left(stage, step, backend))
        return next(((workload, number) for workload, number, _ in left), None)

    def left(self, lost: Mapping[str, str], stage: Stage | None = None) -> str:
        """Return how much is done and how long the rest will take, in words.

        Args: stage - the one whose servers run; lost - backends that have nothing left to do there.
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
        """Return how long the rest of a stage takes one backend; it is filled up to each step that is not done."""
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
        """Yield what is not done, as which round, and how long it takes; nothing behind a wall in filling.

        Of a fill that is how long it takes beside the records, which may be needed also if it is done.
        """
        for each in stage.steps:
            workload = stage.fill(each, self._seed)
            fill = self.found(stage, backend, workload)
            if fill is not None and fill.wall is not None:
                return
            if each is step:
                if fill is None:
                    yield workload, 1, _SETTLING_S
                break
        for number in range(1, self._sizes.rounds + 1):
            for workload in step.workloads:
                if self.found(stage, backend, workload, number) is None:
                    yield workload, number, workload.seconds + _BESIDE_S
        if backend in RESTARTED:
            workload = stage.restart(step, self._seed)
            if self.found(stage, backend, workload) is None:
                yield workload, 1, _RESTART_S


def _key(durability: str, backend: str, workload: Workload, number: int) -> tuple[str, str, str, int]:
    return durability, backend, json.dumps(workload.to_json(), sort_keys=True), number
