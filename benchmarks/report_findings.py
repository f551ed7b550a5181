"""Which of two sides was better, for each case that both have measured, by what factor, and how sure that is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.compare_figures import RATE, Figure, compared, figures, good, is_reached
from benchmarks.compare_rounds import Difference, Verdict, differ_in_rounds
from benchmarks.metadata_suite import FILL, RESTART
from benchmarks.report_page import Table
from benchmarks.report_words import case_words, driver_title, load_words, wall_kind
from benchmarks.results import Measurement, alike
from benchmarks.workloads import Workload

__all__ = ["PREFERRED", "Finding", "findings", "findings_table", "summary", "walls_table"]

PREFERRED: Final = ("zookeeper", "hbase", "hbase+thrift", "sqlite")
"""Of these, the first two that a result has are held against each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A case that two sides were measured in. `factor`: how much better the second side was; below 1, worse.

    figure: what was compared, of the first and of the second side; None where one of them met a wall. ratios: the
    factor within single rounds, where both sides had the same machine. walls: how the first or the second failed.
    """

    workload: Workload
    on: str
    sides: tuple[str, str]
    figures: tuple[Figure, Figure] | None
    difference: Difference | None
    factor: float | None
    ratios: tuple[float, ...]
    walls: tuple[str | None, str | None]

    @property
    def case(self) -> str:
        """Return what was done, and under which load; not to how many topics."""
        name = self.workload.name
        return name if name in (FILL, RESTART) else f"{name}, {load_words(self.workload)}"

    @property
    def better(self) -> str | None:
        """Return the side that was better, beyond the noise; None if that cannot be said."""
        first, second = self.walls
        if (first is None) != (second is None):
            return self.sides[0] if first is None else self.sides[1]
        if self.factor is None or self.difference is None:
            return None
        if self.difference.verdict in (Verdict.NOISE, Verdict.UNKNOWN):
            return None
        return self.sides[1] if self.factor > 1 else self.sides[0]

    @property
    def is_known(self) -> bool:
        """Say whether the noise is known, or a wall has decided."""
        if any(self.walls):
            return True
        return self.difference is not None and self.difference.verdict is not Verdict.UNKNOWN


def findings(program: str, measurements: Sequence[Measurement], first: str, second: str) -> list[Finding]:
    """Return what comes out of all cases that both drivers have measured."""
    groups = alike(measurements)
    by_case = {_case(group[0]): group for group in groups if group[0].driver == second}
    return [
        _finding(program, group, by_case[_case(group[0])])
        for group in groups
        if group[0].driver == first and _case(group[0]) in by_case
    ]


def _case(measurement: Measurement) -> str:
    return json.dumps([measurement.on, measurement.workload.to_json() | {"seed": None}], sort_keys=True)


def _finding(program: str, first: Sequence[Measurement], second: Sequence[Measurement]) -> Finding:
    are_reached = first[0].workload.is_open_loop and is_reached(good(first)) and is_reached(good(second))
    mine = {figure.name: figure for figure in figures(program, first, are_times_first=are_reached)}
    other = {figure.name: figure for figure in figures(program, second, are_times_first=are_reached)}
    name = next((name for name in mine if name in other), None)
    pair = (mine[name], other[name]) if name is not None else None
    difference = _difference(pair, good(first), good(second)) if pair else None
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
        ratios=_ratios(pair, good(first), good(second)),
        walls=(_wall(first), _wall(second)),
    )


def _difference(pair: tuple[Figure, Figure], first: Sequence[Measurement], second: Sequence[Measurement]) -> Difference:
    """Compare round by round where there are enough of them: both sides of a round had the same machine."""
    if [each.round for each in first] == [each.round for each in second]:
        found = differ_in_rounds(pair[0].rounds, pair[1].rounds)
        if found is not None:
            return found
    return compared(*pair)[0]


def _ratios(
    pair: tuple[Figure, Figure] | None, first: Sequence[Measurement], second: Sequence[Measurement]
) -> tuple[float, ...]:
    """Return the factors within single rounds."""
    if pair is None:
        return ()
    mine = dict(zip((each.round for each in first), pair[0].rounds, strict=True))
    other = dict(zip((each.round for each in second), pair[1].rounds, strict=True))
    found = [(mine[number], other[number]) for number in mine if number in other and mine[number] and other[number]]
    return tuple(one / two if pair[0].is_more_worse else two / one for one, two in found)


def _wall(rounds: Sequence[Measurement]) -> str | None:
    if good(rounds):
        return None
    return next((each.wall for each in rounds if each.wall is not None), "nothing was finished in time")


def summary(found: Sequence[Finding]) -> str:
    """Return in a sentence or two how many cases went to whom."""
    if not found:
        return ""
    first, second = found[0].sides
    counts = {side: sum(each.better == side for each in found) for side in (first, second)}
    unknown = sum(each.better is None and not each.is_known for each in found)
    same = len(found) - sum(counts.values()) - unknown
    told = [f"{driver_title(side)} was better in {counts[side]}" for side in (second, first)]
    text = f"Of {len(found)} cases that both {driver_title(first)} and {driver_title(second)} have, {', '.join(told)}"
    if same:
        text += f", and {same} lie{'s' if same == 1 else ''} within the noise of the rounds"
    text += "."
    if unknown:
        text += (
            f" Of {unknown} nobody can tell: with a single round the noise is not known, "
            "and the factor below is a remark."
        )
    return text


def findings_table(title: str, found: Sequence[Finding]) -> Table:
    """Return who was better, line by line."""
    columns = ("measured", "compared by", *(driver_title(side) for side in found[0].sides), "better", "how sure")
    return Table(title=title, columns=columns, lines=[_line(each) for each in found])


def _line(finding: Finding) -> list[str]:
    shown = ["–", "–"]
    if finding.figures is not None:
        shown = [figure.text() for figure in finding.figures]
    else:
        shown = [f"wall: {wall}" if wall is not None else "measured" for wall in finding.walls]
    name = finding.figures[0].name if finding.figures is not None else "walls"
    if finding.workload.is_open_loop and name == RATE:
        name += ", since the offered load was not reached"
    return [finding.case, name, *shown, _better(finding), _sure(finding)]


def _better(finding: Finding) -> str:
    if finding.factor is None:
        return "–" if finding.better is None else driver_title(finding.better)
    factor = finding.factor
    ahead = finding.sides[1] if factor > 1 else finding.sides[0]
    text = f"{driver_title(ahead)} {max(factor, 1 / factor):.2f} ×"
    if len(finding.ratios) > 1:
        ratios = sorted(ratio if factor > 1 else 1 / ratio for ratio in finding.ratios)
        text += f" (rounds {ratios[0]:.2f} – {ratios[-1]:.2f})"
    if finding.better is None:
        return f"not told apart; {text}" if finding.is_known else f"noise unknown; {text}"
    return text


def _sure(finding: Finding) -> str:
    if finding.difference is None:
        return "a wall decides" if any(finding.walls) else "–"
    difference = finding.difference
    if difference.low is None or difference.high is None:
        return difference.how
    low, high = difference.low, difference.high
    if finding.figures is not None and finding.figures[0].is_more_worse:
        low, high = 1 / high, 1 / low
    if finding.factor is not None and finding.factor < 1:
        low, high = 1 / high, 1 / low
    return f"95 %: {_bound(low)} – {_bound(high)}; {difference.how}"


def _bound(ratio: float) -> str:
    """Return an end of an interval; what is far out says only that nothing is known."""
    return f"{ratio:.2f}" if 0.01 <= ratio < 1000 else "0" if ratio < 1 else "over 1,000"


def walls_table(found: Sequence[Measurement]) -> Table | None:
    """Return all walls, in full; None if there are none."""
    lines = [
        [f"{each.on}: {case_words(each.workload)}", driver_title(each.driver), wall_kind(each.wall), each.wall]
        for each in found
        if each.wall is not None
    ]
    if not lines:
        return None
    return Table(title="", columns=("at", "backend", "kind", "how it failed"), lines=lines)
