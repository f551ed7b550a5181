"""The command `hedwig-bench compare`."""

import json
import sys
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from hedwig.benchmarks.report.compare.results import ComparedFigure, ComparedLine, Comparison, compare
from hedwig.benchmarks.runs.compare_rounds import Relation, bound_words
from hedwig.benchmarks.runs.figures import PERCENTILES, SECONDS_MIN
from hedwig.benchmarks.runs.results import Result

__all__ = ["compare_command"]

_SLOWER: Final = 1
_UNDECIDED: Final = 3
_WIDTH: Final = 200
"""The width of a table that goes into a file or a pipe."""
_PERCENTILES: Final = tuple(f"p{percentile:g}" for percentile in PERCENTILES)
_EXPLAINED: Final = (
    "B ÷ A: the ratio of the geometric means of the rounds, and its 95 % interval (Welch's, of the rounds' "
    "logarithms). Of percentiles: the ratio of those of all times together, from merged histograms. The interval "
    "beside it is that of the rounds' ratio, which need not hold it. B is faster or slower if the interval is beyond 1 "
    "and the difference is at least 2 %. Percentiles must also differ so in all times together: else the two disagree. "
    "An interval that holds 1 is within the noise. From a single round the noise is unknown. Closed loops of less "
    f"than {SECONDS_MIN:g} s are too short to tell. About five of 100 such verdicts are wrong by chance. "
    "Columns p50 … p99.9: B ÷ A of the times, as in that column, with * where B is faster or slower by it."
)
_ONE_RUN: Final = (
    "One run a side: how much whole runs differ is not known, with servers started anew at another time. These "
    "intervals are of the rounds within a run. With several files a side (A1,A2,A3 B1,B2,B3) each run is one sample."
)
_RUNS: Final = (
    "Several runs a side: “round” above is a run, and a figure the median of the runs; percentiles are of all of them "
    "together."
)


@click.command(
    "compare",
    epilog="Example: hedwig-bench compare before.json after.json --fail-slower-than 10",
)
@click.argument("first", metavar="A[,A2...]")
@click.argument("second", metavar="B[,B2...]")
@click.option(
    "--anyway",
    is_flag=True,
    help="Compare also if durability, heap, machine or other terms differ. The differences are printed.",
)
@click.option(
    "--fail-slower-than",
    "percent",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="Exit with 1 if B is slower in a case by more than this, beyond the noise. The same if B meets a wall or "
    "fails where A did not. Exit with 3 if single rounds or missing cases leave this undecided.",
)
@click.option("--json", "as_json", is_flag=True, help="All figures, as JSON.")
def compare_command(first: str, second: str, anyway: bool, percent: float | None, as_json: bool) -> None:
    """Compare the result B with A, case by case: faster, slower, or within the noise of the rounds.

    A and B are result files, or directories of runs. Several of one side, separated by commas, are runs of the same,
    and each run is one sample. Only then do the verdicts include the noise between runs. Loads that reached their
    offered rate on both sides are compared by their times, all others by their rates. All results must have the same
    terms: program, durability, heap, sizes and machine.
    """
    comparison = compare(_read(first), _read(second), anyway=anyway)
    if as_json:
        click.echo(json.dumps({"first": first, "second": second, **comparison.to_json()}, indent=1))
    else:
        _print(comparison, first, second, Console() if sys.stdout.isatty() else Console(width=_WIDTH))
    if percent is not None:
        _judge(comparison, percent)


def _read(given: str) -> list[Result]:
    """Return the results of a side: `given` names one, or several with commas between them."""
    paths = [given] if Path(given).exists() else given.split(",")
    return [Result.read(Path(path)) for path in paths]


def _judge(comparison: Comparison, percent: float) -> None:
    """End the process with the exit code that `--fail-slower-than` promises."""
    for line in comparison.slower_than(percent / 100):
        click.echo(f"slower than allowed: {line.side}, {line.what}: {_change(line)}", err=True)
    undecided = comparison.undecided(percent / 100)
    for what in undecided:
        click.echo(f"undecided: {what}", err=True)
    if comparison.slower_than(percent / 100):
        sys.exit(_SLOWER)
    if undecided:
        sys.exit(_UNDECIDED)


def _change(line: ComparedLine) -> str:
    if line.walls[1] is not None:
        return line.walls[1]
    if line.is_failing:
        return f"{line.failed[1]:.0%} of the operations failed"
    figure = line.figures[0]
    return f"{figure.first.name} {figure.first.text()} → {figure.second.text()}"


def _print(comparison: Comparison, first: str, second: str, console: Console) -> None:
    console.print(f"A {first}\nB {second}", highlight=False, markup=False)
    for each in comparison.differences:
        mark = "NOT COMPARABLE: " if each.forbids else "differs: "
        console.print(f"{mark}{each}", highlight=False, markup=False)
    table = Table()
    for title in ("measured", "on", "figure", "A", "B", "B ÷ A", "B is", *_PERCENTILES, "notes"):
        table.add_column(title, overflow="fold")
    for line in comparison.lines:
        table.add_row(*_cells(line))
    console.print(table, markup=False)
    for side, only in (("A", comparison.only_first), ("B", comparison.only_second)):
        for what in only:
            console.print(f"only in {side}: {what}", highlight=False, markup=False)
    for said in (_EXPLAINED, _ONE_RUN if max(comparison.runs) == 1 else _RUNS):
        console.print(said, highlight=False, markup=False)


def _cells(line: ComparedLine) -> list[str]:
    by_name = {figure.first.name: figure for figure in line.figures}
    times = [_time_ratio(by_name.get(f"response {percentile}, ms")) for percentile in _PERCENTILES]
    notes = "; ".join([*line.notes, *(f"{side}: {wall}" for side, wall in zip("AB", line.walls, strict=True) if wall)])
    start = [line.what, line.side]
    if not line.figures:
        return [*start, "–", "–", "–", "–", line.verdict, *times, notes]
    figure = line.figures[0]
    shown = [figure.first.name, figure.first.text(), figure.second.text(), _ratio(figure)]
    return [*start, *shown, f"{line.verdict}: {figure.difference.how}", *times, notes]


def _ratio(figure: ComparedFigure) -> str:
    difference = figure.difference
    if difference.ratio is None:
        return "–"
    if difference.low is None or difference.high is None:
        return f"{difference.ratio:.2f}"
    interval = f"{bound_words(difference.low)} – {bound_words(difference.high)}"
    # A ratio of all times together has no interval. The interval shown is that of the rounds' ratios.
    return f"{difference.ratio:.2f} ({'rounds ' if figure.first.is_percentile else ''}{interval})"


def _time_ratio(figure: ComparedFigure | None) -> str:
    if figure is None or figure.difference.ratio is None:
        return "–"
    is_clear = figure.difference.verdict in (Relation.MORE, Relation.LESS)
    return f"{figure.difference.ratio:.2f}{'*' if is_clear else ''}"
