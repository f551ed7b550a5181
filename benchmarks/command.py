"""The command of a suite: it prepares a run, runs it, and shows its results."""

import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.interrupts import interrupt_on_signals
from hedwig.benchmarks.machine.environment import environment
from hedwig.benchmarks.report.files import write_report
from hedwig.benchmarks.report.tables import show_result
from hedwig.benchmarks.runs.results import Result, file_of_run
from hedwig.benchmarks.suites.suite import Run, Suite
from hedwig.errors import MissingExtraError
from hedwig.exit_codes import ExitCode

__all__ = ["command_of"]

_RESULTS: Final = Path("benchmarks", "results")


def command_of(suite: Suite) -> click.Command:
    """Return the command that measures a suite."""
    command = click.command(suite.name, epilog=f"Example: hedwig-bench {suite.example}")(suite.options)
    command.callback = partial(_measure, suite)
    return command


def _measure(
    suite: Suite,
    *,
    label: str,
    as_json: bool,
    path: Path | None = None,
    data: Path | None = None,
    resume: bool = False,
    **asked: Any,
) -> None:
    """Prepare and run what the user asked for.

    Args: path - the result's file, or the run's directory if the suite keeps each run in a directory.
    """
    if resume and path is None:
        raise click.UsageError(
            f"--resume continues the file that {suite.file_option} names: give {suite.file_option} too"
        )
    started = datetime.now(UTC)
    new = f"{suite.name}-{started:%Y%m%dT%H%M%SZ}"
    folder: AbstractContextManager[str | Path]
    if suite.has_directory:
        directory = path or _RESULTS / new
        path, folder = file_of_run(directory), nullcontext(directory)
    else:
        path, folder = path or _RESULTS / f"{new}.json", _data_folder(data)
    result: Result | None = None
    with interrupt_on_signals(), folder as run_directory:
        try:
            with ExitStack() as stack:
                prepare = suite.options(**asked)
                run = Run(directory=Path(run_directory), stack=stack)
                machine = environment(run.directory)
                plan = prepare(run)
                result = Result(
                    program=suite.program,
                    started=f"{started:%Y-%m-%d %H:%M:%S} UTC",
                    environment=machine,
                    terms=({"label": label} if label else {}) | dict(plan.terms),
                )
                if (resume or suite.has_directory) and path.exists():
                    result = suite.gone_on(result, Result.read(path), suite.file_option)
                run.result = result
                plan.carry_out(result, path)
        except ValueError as exc:
            raise BenchmarkError(str(exc)) from exc
        except KeyboardInterrupt:
            click.echo("interrupted before anything was measured" if result is None else "interrupted", err=True)
            sys.exit(ExitCode.INTERRUPTED)
    _end(suite, result, path, as_json=as_json)


def _data_folder(data: Path | None) -> "tempfile.TemporaryDirectory[str]":
    """Return a new folder in `data`, which is made if missing, or in the system's folder for temporary files.

    Raises: BenchmarkError - the folder cannot be made.
    """
    try:
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="hedwig-bench-", dir=data, ignore_cleanup_errors=True)
    except OSError as exc:
        parent = tempfile.gettempdir() if data is None else data
        raise BenchmarkError(
            f"cannot write data in {parent}: {exc.strerror or exc}; name a writable folder with --data"
        ) from exc


def _end(suite: Suite, result: Result, path: Path, *, as_json: bool) -> None:
    """Print the result of a run, write its report, say where both are, and end the process if it was interrupted.

    A run with a directory of its own has its report there. Any other report goes beside the result, named after it.
    """
    show_result(result, as_json=as_json)
    click.echo(f"written to {path}", err=True)
    if result.measurements:
        # An interrupted run gets a report too, which says that it was interrupted.
        is_in_own = suite.has_directory
        report_folder = path.parent if is_in_own else path.with_name(f"{path.stem.removesuffix('.json')}-report")
        try:
            page, *_ = write_report([(path.parent.name if is_in_own else path.name, result)], report_folder)
        except (BenchmarkError, MissingExtraError) as exc:
            click.echo(f"{exc}; to make the report again, run hedwig-bench report {path} -o {report_folder}", err=True)
        else:
            click.echo(f"report: {page}", err=True)
    if not result.is_complete:
        sys.exit(ExitCode.INTERRUPTED)
