"""Results of two sides beside each other: how the second compares with the first, and how sure that is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.report.compare.runs import figures_of_runs
from hedwig.benchmarks.report.compare.terms import TermDifference, term_differences
from hedwig.benchmarks.runs.compare_rounds import Difference, Relation, undecided
from hedwig.benchmarks.runs.figures import FAILED_MAX, SECONDS_MIN, Figure, OwnFigures, compared, is_too_short
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.rounds import failed_share, good, is_reached
from hedwig.benchmarks.runs.walls import wall_of
from hedwig.benchmarks.runs.words import case_words, side_words
from hedwig.benchmarks.suites.registry import suite_of

__all__ = ["ComparedFigure", "ComparedLine", "Comparison", "compare"]

_NOT_OF_A_CASE: Final = frozenset({"seed", "seconds", "warmup_s", "warmup_share", "operations"})
"""Fields of a workload that say how long it ran and with which draw, but not what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """A figure of both sides. `word`: the verdict on the second. `is_worse`: the second is worse beyond the noise."""

    first: Figure
    second: Figure
    difference: Difference
    word: str

    @property
    def is_worse(self) -> bool:
        return self.difference.verdict is (Relation.MORE if self.first.is_more_worse else Relation.LESS)

    def loss(self) -> float:
        """Return by which share of the first's speed the second is slower: 0.2 for a rate of 80 instead of 100.

        A time of 125 ms instead of 100 is the same loss. It is negative if the second is faster. If the rounds and
        all times together disagree, it is the greater of the two losses.
        """
        difference = self.difference
        said = (difference.ratio, difference.of_rounds if difference.verdict is Relation.MIXED else None)
        return max((self._loss(ratio) for ratio in said if ratio is not None), default=0.0)

    def _loss(self, ratio: float) -> float:
        return 1 - (1 / ratio if self.first.is_more_worse and ratio else ratio)

    def to_json(self) -> dict[str, Any]:
        difference = self.difference
        return {
            "figure": self.first.name,
            "first": self.first.value,
            "first_rounds": list(self.first.rounds),
            "second": self.second.value,
            "second_rounds": list(self.second.rounds),
            "ratio": difference.ratio,
            "ratio_of_rounds": difference.of_rounds,
            "ratio_low": difference.low,
            "ratio_high": difference.high,
            "verdict": self.word,
            "how": difference.how,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLine:
    """One workload on one driver.

    figures: the first one decides the verdict. None if a side met a wall.
    side: the driver and what it ran on, in words.
    walls: how the first and the second side failed, if they did.
    failed: the share of the first side's operations that failed, and that of the second's.
    notes: what a reader of the figures must know.
    """

    what: str
    driver: str
    side: str
    on: str
    topics: int
    subscribers: int
    figures: tuple[ComparedFigure, ...] = ()
    walls: tuple[str | None, str | None] = (None, None)
    failed: tuple[float, float] = (0.0, 0.0)
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        first, second = self.walls
        if first is not None and second is not None:
            return "both met a wall"
        if second is not None:
            return "met a wall"
        if first is not None:
            return "met no wall any more"
        if self.is_failing:
            return "failing"
        if self.failed[0] > FAILED_MAX:
            return "failing on both sides" if self.failed[1] > FAILED_MAX else "failing no more"
        return self.figures[0].word if self.figures else "nothing was finished"

    @property
    def is_failing(self) -> bool:
        """Say whether too many operations failed on the second side, and not on the first."""
        return self.failed[1] > FAILED_MAX >= self.failed[0]

    @property
    def are_figures_sound(self) -> bool:
        """Say whether the figures may be compared. Those of a failing side may only be those of quick failures."""
        return bool(self.figures) and max(self.failed) <= FAILED_MAX

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "driver": self.driver,
            "on": self.on,
            "topics": self.topics,
            "subscribers": self.subscribers,
            "verdict": self.verdict,
            "first_wall": self.walls[0],
            "second_wall": self.walls[1],
            "first_failed": self.failed[0],
            "second_failed": self.failed[1],
            "figures": [figure.to_json() for figure in self.figures],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The second side against the first.

    only_first, only_second: cases that the other side has not measured.
    runs: the number of results of each side.
    """

    differences: Sequence[TermDifference]
    lines: Sequence[ComparedLine]
    only_first: Sequence[str] = field(default=())
    only_second: Sequence[str] = field(default=())
    runs: tuple[int, int] = (1, 1)

    def slower_than(self, share: float) -> list[ComparedLine]:
        """Return the lines that are worse by more than `share`, and beyond the noise, and those that newly fail.

        A line newly fails if only the second side met a wall, or if too many operations failed only there.
        """
        return [
            line
            for line in self.lines
            if line.verdict == "met a wall"
            or line.is_failing
            or (line.are_figures_sound and line.figures[0].is_worse and line.figures[0].loss() > share)
        ]

    def undecided(self, share: float) -> list[str]:
        """Return, in words, the cases that may be slower by more than `share` without proof either way.

        These are cases with single rounds or short ones, and cases where all times together do not confirm the rounds.
        Cases whose first side failed in part are among them, and cases that the second side does not have.
        """
        cases = [
            f"{line.side}: {line.what}: {line.figures[0].difference.how}"
            for line in self.lines
            if line.are_figures_sound
            and line.figures[0].difference.verdict in (Relation.UNKNOWN, Relation.SHORT, Relation.MIXED)
            and (line.figures[0].difference.ratio is None or line.figures[0].loss() > share)
        ]
        failing = f"more than {FAILED_MAX:.0%} of the first side's operations failed"
        cases += [
            f"{line.side}: {line.what}: {failing}"
            for line in self.lines
            if line.figures and line.failed[0] > FAILED_MAX
        ]
        return [*cases, *(f"{what}: only the first result has it" for what in self.only_first)]

    def to_json(self) -> dict[str, Any]:
        return {
            "differences": [
                {"name": each.name, "first": each.first, "second": each.second, "forbids": each.forbids}
                for each in self.differences
            ],
            "lines": [line.to_json() for line in self.lines],
            "only_first": list(self.only_first),
            "only_second": list(self.only_second),
            "runs": list(self.runs),
        }


def compare(first: Sequence[Result], second: Sequence[Result], *, anyway: bool = False) -> Comparison:
    """Compare two sides. Each is one result or several runs of the same; each of several runs is one sample.

    Raises: BenchmarkError - the terms forbid it and `anyway` is not set, or the sides have no case in common.
    """
    base, *others = (*first, *second)
    differences = list(dict.fromkeys(each for other in others for each in term_differences(base, other)))
    differences.sort(key=lambda each: not each.forbids)
    if not anyway and (forbidding := [str(each) for each in differences if each.forbids]):
        raise BenchmarkError(
            f"these results cannot be compared without --anyway: they differ in {'; in '.join(forbidding)}"
        )
    mine, other = _cases(first), _cases(second)
    shared = [case for case in mine if case in other]
    if not shared:
        raise BenchmarkError(
            f"the results have no case in common: one begins with {_first_of(mine)}, the other with {_first_of(other)}"
        )
    own = suite_of(base.program).figures
    return Comparison(
        differences=differences,
        lines=[_line(own, mine[case], other[case], are_runs=bool(others[1:])) for case in shared],
        only_first=[_named(mine[case][0][0]) for case in mine if case not in other],
        only_second=[_named(other[case][0][0]) for case in other if case not in mine],
        runs=(len(first), len(second)),
    )


_Runs = Sequence[Sequence[Measurement]]


def _cases(results: Sequence[Result]) -> dict[str, list[list[Measurement]]]:
    """Return the measurements of a side by case: for each run that has the case, its rounds."""
    by_case: dict[str, list[list[Measurement]]] = {}
    for result in results:
        of_run: dict[str, list[Measurement]] = {}
        for each in result.measurements:
            workload: Mapping[str, Any] = each.workload.to_json()
            plain = {name: value for name, value in workload.items() if name not in _NOT_OF_A_CASE}
            of_run.setdefault(json.dumps([each.on, each.driver, plain], sort_keys=True), []).append(each)
        for case, rounds in of_run.items():
            by_case.setdefault(case, []).append(rounds)
    return by_case


def _first_of(cases: Mapping[str, _Runs]) -> str:
    return next((_named(runs[0][0]) for runs in cases.values()), "nothing")


def _named(measurement: Measurement) -> str:
    return f"{side_words(measurement)}: {case_words(measurement.workload)}"


def _compared(first: Figure, second: Figure, *, are_runs: bool, rounds: Sequence[Measurement]) -> ComparedFigure:
    """Compare a figure of two sides; `rounds` are those of both."""
    difference, word = compared(first, second)
    if is_too_short(first, rounds):
        how = f"a round of less than {SECONDS_MIN:g} s"
        difference, word = undecided(difference, Relation.SHORT, how), Relation.SHORT.value
    elif are_runs:
        difference = replace(difference, how=difference.how.replace("round", "run"))
    return ComparedFigure(first=first, second=second, difference=difference, word=word)


def _line(own: OwnFigures, first: _Runs, second: _Runs, *, are_runs: bool) -> ComparedLine:
    all_first, all_second = ([each for rounds in runs for each in rounds] for runs in (first, second))
    workload = all_first[0].workload
    are_reached = workload.is_open_loop and is_reached(good(all_first)) and is_reached(good(all_second))
    mine, other = (
        {
            figure.name: figure
            for figure in figures_of_runs(runs, own=own, are_times_first=are_reached, is_each_one_sample=are_runs)
        }
        for runs in (first, second)
    )
    shared = [
        _compared(figure, other[name], are_runs=are_runs, rounds=[*good(all_first), *good(all_second)])
        for name, figure in mine.items()
        if name in other
    ]
    notes: dict[str, None] = {}
    for each in (*all_first, *all_second):
        notes |= dict.fromkeys(note for note in each.notes() if note != each.wall)
    for side, runs in (("A", first), ("B", second)):
        walls = [why for rounds in runs if (why := wall_of(rounds)) is not None]
        if 0 < len(walls) < len(runs):
            notes[f"{side}: {len(walls)} of {len(runs)} runs left out: {walls[0]}"] = None
    return ComparedLine(
        what=case_words(workload),
        driver=all_first[0].driver,
        side=side_words(all_first[0]),
        on=all_first[0].on,
        topics=workload.topics,
        subscribers=workload.subscribers,
        figures=tuple(shared),
        walls=(wall_of(all_first), wall_of(all_second)),
        failed=(failed_share(all_first), failed_share(all_second)),
        notes=tuple(notes),
    )
