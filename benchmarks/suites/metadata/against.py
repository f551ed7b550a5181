"""One backend against another: by what factor it was better in each case of both, and how sure that is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.load.workloads import FILL, RESTART, Workload
from hedwig.benchmarks.runs.compare_rounds import Difference, Relation, bound_words, undecided
from hedwig.benchmarks.runs.figures import FAILED_MAX, SECONDS_MIN, Figure, difference_of, figures, is_too_short
from hedwig.benchmarks.runs.results import Measurement, alike
from hedwig.benchmarks.runs.rounds import failed_share, good, is_reached
from hedwig.benchmarks.runs.walls import wall_of
from hedwig.benchmarks.runs.words import driver_title, load_words
from hedwig.benchmarks.suites.metadata.tables import metadata_figures

__all__ = ["PREFERRED", "Against", "against", "against_table"]

PREFERRED: Final = ("zookeeper", "hbase", "hbase+index", "hbase+thrift", "sqlite")
"""The first two of these that a result has are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A case of two sides.

    figures: the compared figure of each side; None if a side has none.
    difference: the ratio of the second side to the first. ratios: the same within single rounds, where both sides had
        the same machine. Rounds of one side alone are in none of these, unless there are no others.
    walls: how the first and the second side failed, if they did.
    notes: what a reader must know of each side.
    """

    workload: Workload
    sides: tuple[str, str]
    figures: tuple[Figure, Figure] | None
    difference: Difference | None
    ratios: tuple[float, ...]
    walls: tuple[str | None, str | None]
    notes: tuple[str, ...]

    @property
    def case(self) -> str:
        """Return what was done and under which load, without the number of topics."""
        name = self.workload.name
        return name if name in (FILL, RESTART) else f"{name}, {load_words(self.workload)}"

    @property
    def is_sure(self) -> bool:
        """Say whether one side was better beyond the noise."""
        return self.difference is not None and self.difference.verdict in (Relation.MORE, Relation.LESS)

    def better(self, ratio: float) -> float:
        """Convert a ratio of the figures to the factor by which the second side was better."""
        return 1 / ratio if self.figures is not None and self.figures[0].is_more_worse else ratio


def against(measurements: Sequence[Measurement], first: str, second: str) -> list[Against]:
    """Return all cases that both drivers have measured."""
    groups = alike(measurements)
    others = {_case(group[0]): group for group in groups if group[0].driver == second}
    mine = [group for group in groups if group[0].driver == first and _case(group[0]) in others]
    return [_against(group, others[_case(group[0])]) for group in mine]


def _case(measurement: Measurement) -> str:
    return json.dumps([measurement.on, measurement.workload.to_json() | {"seed": None}], sort_keys=True)


def _against(first: Sequence[Measurement], second: Sequence[Measurement]) -> Against:
    by_round = {each.round: each for each in good(second)}
    pairs = [(each, by_round[each.round]) for each in good(first) if each.round in by_round]
    mine, other = ([one for one, _ in pairs] or good(first)), ([two for _, two in pairs] or good(second))
    are_reached = first[0].workload.is_open_loop and is_reached(mine) and is_reached(other)
    by_name = [
        {each.name: each for each in figures(rounds, own=metadata_figures, are_times_first=are_reached)}
        for rounds in (mine, other)
    ]
    name = next((name for name in by_name[0] if name in by_name[1]), None)
    pair = (by_name[0][name], by_name[1][name]) if name is not None else None
    difference: Difference | None = None
    ratios: tuple[float, ...] = ()
    if pair is not None:
        difference = difference_of(*pair, are_side_by_side=bool(pairs))
        if max(failed_share(first), failed_share(second)) > FAILED_MAX:
            how = f"more than {FAILED_MAX:.0%} of a side's operations failed"
            difference = undecided(difference, Relation.UNKNOWN, how)
        elif is_too_short(pair[0], [*mine, *other]):
            difference = undecided(difference, Relation.SHORT, f"a round of less than {SECONDS_MIN:g} s")
        if pairs:
            both = zip(pair[0].rounds, pair[1].rounds, strict=True)
            ratios = tuple(two / one for one, two in both if one and two)
    return Against(
        workload=first[0].workload,
        sides=(first[0].driver, second[0].driver),
        figures=pair,
        difference=difference,
        ratios=ratios,
        walls=(wall_of(first), wall_of(second)),
        notes=(*_notes(first), *_notes(second)),
    )


def _notes(rounds: Sequence[Measurement]) -> list[str]:
    side = driver_title(rounds[0].driver)
    return list(dict.fromkeys(f"{side}, round {each.round}: {note}" for each in rounds for note in each.notes()))


def against_table(title: str, cases: Sequence[Against]) -> TextTable:
    """Return a table with a line for each case: both figures, their ratio and its interval, and the verdict."""
    first, second = (driver_title(side) for side in cases[0].sides)
    columns = ("measured", "compared by", first, second, f"{second} ÷ {first}", f"{second} is", "notes")
    return TextTable(title, columns, [_line(each) for each in cases])


def _line(each: Against) -> list[str]:
    notes = "; ".join(each.notes)
    if each.figures is None or each.difference is None:
        shown = [f"wall: {wall}" if wall is not None else "measured" for wall in each.walls]
        return [each.case, "walls", *shown, "–", "–", notes]
    difference, words = each.difference, each.figures[0].words
    verdict = {Relation.MORE: words[0], Relation.LESS: words[1]}.get(difference.verdict, difference.verdict.value)
    ratio = "–" if difference.ratio is None else f"{difference.ratio:.2f}"
    if difference.low is not None and difference.high is not None:
        of = "rounds " if each.figures[0].is_percentile else ""
        ratio += f" ({of}{bound_words(difference.low)} – {bound_words(difference.high)})"
    shown = [figure.text() for figure in each.figures]
    return [each.case, each.figures[0].name, *shown, ratio, f"{verdict}: {difference.how}", notes]
