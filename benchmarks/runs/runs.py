"""A run: all cases, round by round, with progress, into one result."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.runs.results import Measurement, Result, is_measured
from hedwig.benchmarks.runs.start_times import StartTimes

__all__ = ["carry_out"]

_SHOWN: Final = ("bytes_per_", "operations_per_s")


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
    """Measure all cases, with `is_turned` every other round in the opposite order; Ctrl-C ends the run early.

    The file at `path` is written after each case. Cases that `result` already has are not measured again, unless they
    met a wall.
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
                click.echo(f"    {_line(measurement)}", err=True)
        result.is_complete = True
    except KeyboardInterrupt:
        click.echo("interrupted; what was measured is kept", err=True)
    result.write(path)


def _line(measurement: Measurement) -> str:
    shown = {name: value for name, value in measurement.values.items() if name.startswith(_SHOWN)}
    grown = [f"{value:,.0f} {name.replace('_', ' ')}" for name, value in shown.items()]
    return "; ".join([f"{measurement.rate_per_s:,.0f}/s", *grown, *measurement.notes()])
