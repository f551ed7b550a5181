"""What the findings come to: in sentences, and in a table of all cases."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from hedwig.benchmarks.load.workloads import FILL
from hedwig.benchmarks.report.compare.figures import FAILED_MAX, RATE, SECONDS_MIN
from hedwig.benchmarks.report.findings.findings import OPERATIONS_MIN, Finding, Outcome, side_remarks
from hedwig.benchmarks.report.page import Table
from hedwig.benchmarks.runs.compare_rounds import bound_words
from hedwig.benchmarks.runs.walls import ALL_FAILED, wall_kind
from hedwig.benchmarks.runs.words import driver_title

__all__ = ["findings_table", "leads", "summary"]

_NO_VERDICT: Final = (
    (Outcome.SAME, "the difference lies within the noise of the rounds"),
    (Outcome.UNKNOWN, "a single round does not tell the noise, so that the factor below is a remark"),
    (Outcome.MIXED, "the rounds favour a side, and all their times together do not"),
    (Outcome.LIMITED, "one side was ahead, but the client of the other, or the machine, was at its own limit"),
    (Outcome.UNCHECKED, "one side was ahead, but it is not known whether the client of the other was its limit"),
    (Outcome.SHORT, f"a round lasted less than {SECONDS_MIN:g} s, too short to tell"),
    (Outcome.FEW, f"there were fewer than {OPERATIONS_MIN} operations"),
    (Outcome.FAILED, f"more than {FAILED_MAX:.0%} of a side's operations failed"),
    (Outcome.BOTH_WALLS, "both met a wall"),
    (
        Outcome.OUR_LIMIT,
        "one side had not come to its end when this run's own time for it was over, which decides nothing",
    ),
)
"""Why a case has no winner."""
_UNPROVED: Final = (
    (Outcome.LIMITED, "Where its rival's client, or the machine, was at its own limit"),
    (Outcome.UNCHECKED, "Where nobody knows whether its rival's client was the limit"),
    (Outcome.UNKNOWN, "In a single round, which proves nothing"),
)
_AHEAD_MIN: Final = 1.1
"""By less than this nobody is called ahead where the noise is not known."""


def summary(found: Sequence[Finding]) -> str:
    """Return in a few sentences how many cases went to whom, and why the others went to nobody."""
    if not found:
        return ""
    first, second = found[0].sides
    counts = {side: sum(each.better == side for each in found) for side in (first, second)}
    told = [f"{driver_title(side)} was better in {count or 'none'}" for side, count in counts.items()]
    both = f"both {driver_title(first)} and {driver_title(second)}"
    text = f"Of {_cases(len(found))} that {both} have, {' and '.join(told)}."
    without = {outcome: sum(each.outcome is outcome for each in found) for outcome, _ in _NO_VERDICT}
    others = [f"{without[outcome]:,} since {why}" for outcome, why in _NO_VERDICT if without[outcome]]
    return f"{text} Without a winner: {'; '.join(others)}." if others else text


def leads(found: Sequence[Finding], words: str, unproved_at: Collection[int]) -> list[str]:
    """Return in what each side is better at each number of topics; then in what each is ahead, but not proved to be.

    In between stands what one side could not do at all. Unproved is what lacks but more rounds, and where the rival may
    have been held back by something else than its store: perhaps nearly everything, so `unproved_at` says at which
    numbers of topics it is told.
    """
    told = []
    for side in found[0].sides:
        better = [each for each in found if each.better == side]
        where = _at_each_step(found, better)
        told.append(f"Where {driver_title(side)} is better by the rounds of one size alone ({words}): {where}")
    for place, side in enumerate(found[0].sides):
        other = found[0].sides[1 - place]
        failed = [each for each in found if _all_failed(each.walls[place]) and each.walls[1 - place] is None]
        if failed:
            told.append(
                f"Where all that was asked of {driver_title(side)} failed, and not of {driver_title(other)} ({words}): "
                + _at_each_step(failed, failed, partial(_with_wall, place))
            )
    for outcome, why in _UNPROVED:
        for side in found[0].sides:
            ahead = [
                each
                for each in found
                if (each.outcome, each.ahead) == (outcome, side)
                and each.workload.topics in unproved_at
                and _distance(each) >= _AHEAD_MIN
            ]
            if ahead:
                told.append(f"{why}, {driver_title(side)} was ahead ({words}): {_at_each_step(ahead, ahead)}")
    return told


def _all_failed(wall: str | None) -> bool:
    return wall is not None and wall_kind(wall) == ALL_FAILED


def _with_wall(place: int, finding: Finding) -> str:
    return f"{finding.case} ({finding.walls[place]})"


def _at_each_step(
    found: Sequence[Finding], chosen: Sequence[Finding], named: Callable[[Finding], str] | None = None
) -> str:
    """Return the chosen ones of the findings by name, at each number of topics that the findings are of."""
    steps = sorted({each.workload.topics for each in found})
    if not chosen:
        return f"nowhere, at {_listed([f'{topics:,}' for topics in steps])} topics."
    parts = []
    for topics in steps:
        own = [(named or _named)(each) for each in chosen if each.workload.topics == topics]
        parts.append(f"at {topics:,} topics in {'; '.join(own)}" if own else f"at {topics:,} topics nowhere")
    return f"{' – '.join(parts)}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _distance(finding: Finding) -> float:
    factor = finding.factor or 1.0
    return max(factor, 1 / factor)


def findings_table(title: str, found: Sequence[Finding]) -> Table:
    """Return who was better, line by line."""
    names = [driver_title(side) for side in found[0].sides]
    columns = (
        "measured",
        "compared by",
        *names,
        "better",
        "how sure",
        f"operations: {' / '.join(names)}",
        *(f"processors, {name}: client / servers" for name in names),
        "notes",
    )
    return Table(title=title, columns=columns, lines=[_line(each) for each in found])


def _line(finding: Finding) -> list[str]:
    if finding.figures is not None:
        shown = [figure.text() for figure in finding.figures]
    else:
        shown = [f"wall: {wall}" if wall is not None else "measured" for wall in finding.walls]
    name = finding.figures[0].name if finding.figures is not None else "walls"
    if finding.workload.is_open_loop and name == RATE:
        name += ", since the offered load was not reached"
    notes = side_remarks(finding)
    if finding.limit is not None:
        behind = next(side for side in finding.sides if side != finding.ahead)
        notes.insert(0, f"{driver_title(behind)}: {finding.limit}")
    return [
        finding.case,
        name,
        *shown,
        _better(finding),
        _sure(finding),
        _sample(finding),
        *(each.text() for each in finding.processors),
        "; ".join(notes),
    ]


def _sample(finding: Finding) -> str:
    """Return how many operations stand behind each figure, and in how many rounds."""
    shown = " / ".join(f"{count:,}" for count in finding.operations)
    if finding.workload.name == FILL:
        shown += " batches"
    if max(finding.rounds) < 2:
        return shown
    return f"{shown} in {' / '.join(dict.fromkeys(map(str, finding.rounds)))} rounds"


def _better(finding: Finding) -> str:
    outcome = finding.outcome
    if finding.factor is None or finding.ahead is None:
        return driver_title(finding.better) if finding.better is not None else outcome.value
    text = f"{driver_title(finding.ahead)} {_distance(finding):.2f} ×"
    if (rounds := _of_rounds(finding)) is not None:
        text += f"{' over all' if finding.is_percentile else ''} (rounds {rounds})"
    return text if outcome is Outcome.BETTER else f"{outcome.value}; {text}"


def _sure(finding: Finding) -> str:
    if finding.difference is None:
        return "a wall decides" if finding.better is not None else "–"
    difference = finding.difference
    if difference.low is None or difference.high is None:
        return difference.how
    low, high = difference.low, difference.high
    if finding.figures is not None and finding.figures[0].is_more_worse:
        low, high = 1 / high, 1 / low
    if finding.factor is not None and finding.factor < 1:
        low, high = 1 / high, 1 / low
    what = "95 %, of the rounds" if finding.is_percentile else "95 %"
    return f"{what}: {bound_words(low)} – {bound_words(high)}; {difference.how}"


def _named(finding: Finding) -> str:
    if finding.factor is None:
        return f"{finding.case} (the other met a wall)"
    words = f"{_distance(finding):.2f} ×"
    if finding.is_percentile and (rounds := _of_rounds(finding)) is not None:
        # What all times together come to may lie beyond what any round did, which a reader would else not see.
        words += f" over all, {rounds} within the rounds"
    return f"{finding.case} ({words})"


def _of_rounds(finding: Finding) -> str | None:
    """Return between what the factors of single rounds lie, for the side that is ahead; None if there are not two."""
    if len(finding.ratios) < 2:
        return None
    is_second = finding.ahead == finding.sides[1]
    ratios = sorted(ratio if is_second else 1 / ratio for ratio in finding.ratios)
    return f"{ratios[0]:.2f} – {ratios[-1]:.2f}"


def _cases(number: int) -> str:
    return f"{number:,} case{'s' if number != 1 else ''}"
