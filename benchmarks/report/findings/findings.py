"""Which of two sides was better, for each case that both have measured, by what factor, and how sure that is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hedwig.benchmarks.load.workloads import FILL, RESTART, Workload
from hedwig.benchmarks.report.compare.figures import (
    FAILED_MAX,
    Figure,
    difference_of,
    failed_share,
    figures,
    good,
    is_reached,
    is_too_short,
)
from hedwig.benchmarks.runs.compare_rounds import Difference, Verdict
from hedwig.benchmarks.runs.processor_limits import LIMIT_UNKNOWN, Processors
from hedwig.benchmarks.runs.results import Measurement, alike, failure_words
from hedwig.benchmarks.runs.walls import ALL_FAILED, OUR_LIMIT, wall_kind, wall_of, wall_words
from hedwig.benchmarks.runs.words import driver_title, load_words

__all__ = ["OPERATIONS_MIN", "PREFERRED", "Finding", "Outcome", "findings", "side_remarks"]

PREFERRED: Final = ("zookeeper", "hbase", "hbase+thrift", "sqlite")
"""Of these, the first two that a result has are held against each other."""
OPERATIONS_MIN: Final = 30
"""Of fewer, whatever rounds they are in, nobody is called better."""


class Outcome(StrEnum):
    """What a case says of its sides; all but the first say of none that it was better."""

    BETTER = "better"
    LIMITED = "client or machine at its limit"
    UNCHECKED = LIMIT_UNKNOWN
    SAME = "not told apart"
    UNKNOWN = "noise unknown"
    MIXED = Verdict.MIXED.value
    SHORT = "too short to tell"
    FEW = "too few operations"
    FAILED = "operations failed"
    BOTH_WALLS = "both met a wall"
    OUR_LIMIT = "this run's time limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A case that two sides were measured in. `factor`: how much better the second side was; below 1, worse. It is the
    middle of the rounds' factors; of percentiles, that of those of all rounds' times together.

    Of rounds that one side has alone nothing is in it, unless there are no others.

    figures: what was compared, of the first and of the second side; None where one of them has no figure. ratios: the
    factor within single rounds, where both sides had the same machine. walls: how the first or the second failed.
    operations, rounds: how many of each side are in its figure. shortest_s: of its rounds, of each side; is_short: too
    short for a verdict. failed: which share of a side's operations failed.
    processors: what each side kept busy, on a machine with `cpus`. remarks: what a reader must know of each side.
    """

    workload: Workload
    on: str
    sides: tuple[str, str]
    figures: tuple[Figure, Figure] | None
    difference: Difference | None
    factor: float | None
    ratios: tuple[float, ...]
    walls: tuple[str | None, str | None]
    operations: tuple[int, int]
    rounds: tuple[int, int]
    shortest_s: tuple[float, float]
    is_short: bool
    failed: tuple[float, float]
    processors: tuple[Processors, Processors]
    cpus: int | None
    remarks: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def case(self) -> str:
        """Return what was done, and under which load; not to how many topics."""
        name = self.workload.name
        return name if name in (FILL, RESTART) else f"{name}, {load_words(self.workload)}"

    @property
    def is_percentile(self) -> bool:
        """Say whether the factor is that of all times together, and so perhaps beyond those of the rounds."""
        return self.figures is not None and self.figures[0].is_percentile

    @property
    def has_walls(self) -> bool:
        return any(wall is not None for wall in self.walls)

    @property
    def ahead(self) -> str | None:
        """Return the side with the better figure, or without a wall, however sure that is; None if there is none."""
        first, second = self.walls
        if (first is None) != (second is None):
            return self.sides[0] if first is None else self.sides[1]
        if self.factor is None:
            return None
        return self.sides[1] if self.factor > 1 else self.sides[0]

    @property
    def better(self) -> str | None:
        """Return the side that was better, beyond the noise; None if that cannot be said."""
        return self.ahead if self.outcome is Outcome.BETTER else None

    @property
    def limit(self) -> str | None:
        """Return why the side that was behind may have been held back by something else than its store."""
        if self.factor is None or self.workload.name == RESTART:
            return None
        behind = self.processors[0] if self.ahead == self.sides[1] else self.processors[1]
        return behind.limit(self.cpus)

    @property
    def outcome(self) -> Outcome:
        """Return what the case says, the gravest reason against a verdict first."""
        if self.has_walls:
            return self._outcome_of_walls()
        if max(self.failed) > FAILED_MAX:
            return Outcome.FAILED
        if min(self.operations) < OPERATIONS_MIN:
            return Outcome.FEW
        if self.is_short:
            return Outcome.SHORT
        if self.factor is None or self.difference is None or self.difference.verdict is Verdict.UNKNOWN:
            return Outcome.UNKNOWN
        if self.difference.verdict is Verdict.NOISE:
            return Outcome.SAME
        if self.difference.verdict is Verdict.MIXED:
            return Outcome.MIXED
        if self.limit is not None:
            return Outcome.UNCHECKED if self.limit == LIMIT_UNKNOWN else Outcome.LIMITED
        return Outcome.BETTER

    def _outcome_of_walls(self) -> Outcome:
        if all(wall is not None for wall in self.walls):
            return Outcome.BOTH_WALLS
        kind = next(wall_kind(wall) for wall in self.walls if wall is not None)
        if kind == OUR_LIMIT:
            return Outcome.OUR_LIMIT
        other = self.failed[0] if self.walls[0] is None else self.failed[1]
        return Outcome.FAILED if kind == ALL_FAILED or other > FAILED_MAX else Outcome.BETTER


def findings(
    program: str, measurements: Sequence[Measurement], first: str, second: str, *, cpus: int | None = None
) -> list[Finding]:
    """Return what comes out of all cases that both drivers have measured, on a machine with `cpus` processors."""
    groups = alike(measurements)
    by_case = {_case(group[0]): group for group in groups if group[0].driver == second}
    return [
        _finding(program, group, by_case[_case(group[0])], cpus)
        for group in groups
        if group[0].driver == first and _case(group[0]) in by_case
    ]


def _case(measurement: Measurement) -> str:
    return json.dumps([measurement.on, measurement.workload.to_json() | {"seed": None}], sort_keys=True)


def _finding(program: str, first: Sequence[Measurement], second: Sequence[Measurement], cpus: int | None) -> Finding:
    pairs = _side_by_side(good(first), good(second))
    mine_good = [one for one, _ in pairs] or good(first)
    other_good = [two for _, two in pairs] or good(second)
    are_reached = first[0].workload.is_open_loop and is_reached(mine_good) and is_reached(other_good)
    mine = {figure.name: figure for figure in figures(program, mine_good, are_times_first=are_reached)}
    other = {figure.name: figure for figure in figures(program, other_good, are_times_first=are_reached)}
    name = next((name for name in mine if name in other), None)
    pair = (mine[name], other[name]) if name is not None else None
    difference = difference_of(*pair, are_side_by_side=bool(pairs)) if pair else None
    factor = difference.ratio if difference is not None else None
    if pair and factor is not None and pair[0].is_more_worse:
        factor = 1 / factor if factor else None
    return Finding(
        workload=first[0].workload,
        on=first[0].on,
        sides=(first[0].driver, second[0].driver),
        figures=pair,
        difference=difference,
        factor=factor,
        ratios=_ratios(pair) if pair and pairs else (),
        walls=(wall_of(first), wall_of(second)),
        operations=(sum(each.operations for each in mine_good), sum(each.operations for each in other_good)),
        rounds=(len(mine_good), len(other_good)),
        shortest_s=(_shortest_s(mine_good), _shortest_s(other_good)),
        is_short=pair is not None and is_too_short(pair[0], [*mine_good, *other_good]),
        failed=(failed_share(first), failed_share(second)),
        processors=(Processors.of(mine_good), Processors.of(other_good)),
        cpus=cpus,
        remarks=(_remarks(first, mine_good), _remarks(second, other_good)),
    )


def _side_by_side(first: Sequence[Measurement], second: Sequence[Measurement]) -> list[tuple[Measurement, Measurement]]:
    """Return the rounds that both sides have, each with the one beside it, which had the same machine."""
    others = {each.round: each for each in second}
    return [(each, others[each.round]) for each in first if each.round in others]


def _ratios(pair: tuple[Figure, Figure]) -> tuple[float, ...]:
    """Return the factors within single rounds, of figures whose rounds are side by side."""
    found = [(one, two) for one, two in zip(pair[0].rounds, pair[1].rounds, strict=True) if one and two]
    return tuple(one / two if pair[0].is_more_worse else two / one for one, two in found)


def _shortest_s(rounds: Sequence[Measurement]) -> float:
    return min((each.seconds for each in rounds), default=0.0)


def _remarks(rounds: Sequence[Measurement], measured: Sequence[Measurement]) -> tuple[str, ...]:
    """Return what must be known of a side: rounds that are not in its figure, failures, loads that were not reached."""
    found = []
    if measured:
        for each in rounds:
            if (why := wall_words(each)) is not None:
                found.append(f"round {each.round} left out: {why}")
            elif each not in measured:
                found.append(f"round {each.round} left out: the other side has nothing beside it")
        if (failures := failure_words(measured)) is not None:
            found.append(failures)
    for each in measured:
        alone = failure_words([each])
        # How busy a client was has a column of its own.
        notes = [note for note in each.notes() if note != alone and not note.startswith("the generator was busy")]
        found += [f"round {each.round}: {note}" for note in notes]
    return tuple(dict.fromkeys(found))


def side_remarks(finding: Finding) -> list[str]:
    """Return the remarks on both sides, each with the side's name."""
    return [
        f"{driver_title(side)}: {remark}"
        for side, remarks in zip(finding.sides, finding.remarks, strict=True)
        for remark in remarks
    ]
