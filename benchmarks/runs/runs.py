"""A run: all cases, round by round, with progress, into one result."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.report.files import write_report
from hedwig.benchmarks.report.tables import markdown, print_tables
from hedwig.benchmarks.runs.results import OF_A_RUN, Measurement, Result, is_measured
from hedwig.benchmarks.runs.start_times import StartTimes
from hedwig.errors import MissingExtraError

__all__ = ["carry_out", "end_run", "show_result"]

_TOLD: Final = ("bytes_per_", "operations_per_s")
_INTERRUPTED: Final = 130
_WIDTH: Final = 200
"""Of a table that goes into a file or a pipe."""


def carry_out(
    planned: Sequence[Case],
    measure: Callable[[Case, int], Measurement],
    rounds: int,
    result: Result,
    path: Path,
    *,
    named: Callable[[Case], str],
    is_turned: bool = True,
) -> None:
    """Measure all cases, with `is_turned` every other round in the opposite order; Ctrl-C ends it early.

    The file at `path` is written after each case. What `result` already has is not measured again; a case that met a
    wall then is.
    """
    total = len(planned) * rounds
    done = fresh = 0
    began, times = time.monotonic(), StartTimes()
    try:
        for number in range(rounds):
            for case in reversed(planned) if is_turned and number % 2 else planned:
                done += 1
                planned_one = Measurement(workload=case.workload, driver=case.driver, on=case.on, round=number + 1)
                if is_measured(result.measurements, planned_one):
                    continue
                left_s = (time.monotonic() - began) / fresh * (total - done + 1) if fresh else None
                left = f", {left_s / 60:.0f} min left" if left_s is not None else ""
                fresh += 1
                click.echo(f"[{done}/{total}{left}] round {number + 1}: {named(case)}", err=True)
                measurement = times.noted(partial(measure, case, number + 1))
                measurement.on = case.on
                result.measurements.append(measurement)
                result.write(path)
                click.echo(f"    {_told(measurement)}", err=True)
        result.is_complete = True
    except KeyboardInterrupt:
        click.echo("interrupted; what was measured is kept", err=True)
    result.write(path)


def _told(measurement: Measurement) -> str:
    told = {name: value for name, value in measurement.values.items() if name.startswith(_TOLD)}
    grown = [f"{value:,.0f} {name.replace('_', ' ')}" for name, value in told.items()]
    return "; ".join([f"{measurement.rate_per_s:,.0f}/s", *grown, *measurement.notes()])


def show_result(result: Result, *, as_json: bool = False, as_markdown: bool = False) -> None:
    """Print a result to standard output."""
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=1))
    elif as_markdown:
        click.echo(markdown(result))
    else:
        print_tables(result, Console() if sys.stdout.isatty() else Console(width=_WIDTH))


def end_run(result: Result, path: Path, *, as_json: bool) -> None:
    """Print what a run came to, write its report, say where both are, and end the process if it was interrupted.

    The report of a run that has a directory of its own goes there, any other one beside the result, named after it.
    """
    show_result(result, as_json=as_json)
    click.echo(f"written to {path}", err=True)
    if result.measurements:
        # Also of a run that was interrupted: the report says so.
        is_in_own = path.name == OF_A_RUN
        place = path.parent if is_in_own else path.with_name(f"{path.stem}-report")
        try:
            page, *_ = write_report([(path.parent.name if is_in_own else path.name, result)], place)
        except (BenchmarkError, MissingExtraError) as exc:
            click.echo(f"{exc}; this makes it again: hedwig-bench report {path} -o {place}", err=True)
        else:
            click.echo(f"report: {page}", err=True)
    if not result.is_complete:
        sys.exit(_INTERRUPTED)
