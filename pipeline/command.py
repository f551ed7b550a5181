"""How jobs are run: shared options everywhere, errors as one line, exit codes by kind of error."""

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from hedwig.command_line import Program
from hedwig.errors import HedwigError, MissingExtraError
from hedwig.exit_codes import ExitCode
from hedwig.extras import missing_extra
from hedwig.pipeline.output import write_result
from hedwig.pipeline.spark_release import OtherSparkError, check_spark
from hedwig.pipeline.termination import Terminated

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

__all__ = ["Job", "JobCommand", "JobGroup", "pass_job"]

PROGRAM_NAME: Final = "hedwig-pipeline"
RUN_AGAIN: Final = "run the same job again"


@dataclass(slots=True)
class Job:
    """One run of a job: where it runs, and how its result is written."""

    name: str = ""
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    as_json: bool = False
    debug: bool = False
    began: float = field(default_factory=time.monotonic)
    again: str = RUN_AGAIN
    """What the operator does after repairing what ended the job; a part of its error messages."""
    warnings: list[str] = field(default_factory=list)
    """What the result lacks. They are kept here only if the result is JSON, and go to standard error otherwise."""

    @contextmanager
    def session(self) -> "Iterator[SparkSession]":
        """Open the Spark session, with the data source `hedwig` in it.

        If an error of ours made a task fail, that error is raised in place of Spark's.
        """
        from hedwig.pipeline.errors import CONNECTION_ERRORS, SPARK_ERRORS, JobError, from_spark
        from hedwig.pipeline.interruption import ending_queries
        from hedwig.pipeline.session import SessionOptions, has_ended, open_session
        from hedwig.pipeline.source.datasource import register

        how = SessionOptions(master=self.master, settings=self.settings, debug=self.debug)
        with open_session(self.name, how, self.tell) as spark:
            try:
                register(spark, self.warn)
                with ending_queries(spark):
                    yield spark
            except SPARK_ERRORS as exc:
                reason = from_spark(exc)
                if reason is None:
                    raise
                raise reason from exc
            except CONNECTION_ERRORS as exc:
                if not has_ended(spark):
                    raise
                raise JobError(
                    "Spark's Java process has ended: it was killed, and the machine may be short of memory; free some, "
                    f"or give another --conf spark.driver.memory=SIZE, then {self.again}"
                ) from exc

    def progress(
        self, spark: "SparkSession", what: str, rows: int | None = None, *, writes: bool = False, copies: bool = False
    ) -> "AbstractContextManager[None]":
        """Show how far the queries inside the block have come.

        Args: rows - how many rows there are, if known; writes - the rows go to a store; copies - the rows go into
            files, and `rows` is an estimate.
        """
        from hedwig.pipeline.progress import progress

        if self._is_mute:
            return nullcontext()
        return progress(spark, f"{self.name}: {what}", rows=rows, writes=writes, copies=copies)

    @property
    def _is_mute(self) -> bool:
        """Say whether the job may write nothing but its result.

        spark-submit merges both of our streams into its standard output, where programs look for the result.
        """
        return self.as_json and "PYSPARK_GATEWAY_PORT" in os.environ

    @property
    def seconds(self) -> float:
        """Return how long the job has run."""
        return round(time.monotonic() - self.began, 1)

    def tell(self, text: str) -> None:
        """Write to standard error what the job is doing."""
        if not self._is_mute:
            click.echo(f"{self.name}: {text}", err=True)

    def warn(self, text: str | None) -> None:
        """Report what the result lacks, on standard error or in a JSON result. None reports nothing."""
        if text is None:
            return
        if self.as_json:
            self.warnings.append(text)
        else:
            _warn(text)

    def write(self, result: Mapping[str, Any]) -> None:
        """Write the result to standard output."""
        warnings = {"warnings": self.warnings} if self.as_json else {}
        write_result({**result, **warnings, "seconds": self.seconds}, as_json=self.as_json)
        self.warnings = []

    def give_up(self) -> None:
        """Write the warnings to standard error, since the result that would hold them is not written."""
        for text in self.warnings:
            _warn(text)
        self.warnings = []


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


@contextmanager
def _only_our_words(job: Job) -> Iterator[None]:
    """Keep the logs and warnings of libraries off standard error if the result is JSON, for programs."""
    if not job.as_json or job.debug:
        yield
        return
    logging.getLogger().addHandler(_NOWHERE)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(_NOWHERE)


_NOWHERE: Final = logging.NullHandler()

pass_job = click.make_pass_decorator(Job)


class JobCommand(click.Command):
    """A job with the shared options; its help ends with `example`, which runs."""

    def __init__(self, name: str | None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)
        self.params += _shared_options()

    def invoke(self, ctx: click.Context) -> Any:
        given, job = ctx.params, ctx.ensure_object(Job)
        job.name = str(self.name)
        job.master = given.pop("master")
        job.settings = dict(given.pop("conf"))
        job.as_json = given.pop("as_json")
        job.debug = given.pop("debug")
        with _only_our_words(job):
            check_spark()
            return super().invoke(ctx)


class JobGroup(Program):
    """The root command. It gives each job a `Job`."""

    def __init__(self, name: str | None = None, *, example: str, **attributes: Any) -> None:
        super().__init__(name, epilog=f"Example: {example}", **attributes)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)  # In the order in which people need them.

    def run_line(self, args: Sequence[str]) -> int:
        """Run a job as from a shell, and return its exit code. An error becomes one line on standard error."""
        self.check_streams()
        return self.run_words(args, Job(), PROGRAM_NAME)

    def line_about(self, error: Exception, obj: Any) -> tuple[str, int]:
        obj.give_up()
        return _line_about(error, obj)

    def line_about_interrupt(self, error: BaseException, obj: Any) -> tuple[str, int]:
        obj.give_up()
        code = _TERMINATED if isinstance(error, Terminated) else ExitCode.INTERRUPTED
        return f"interrupted; to go on, {obj.again}", code

    def is_debugged(self, obj: Any) -> bool:
        return bool(obj.debug)


def _line_about(error: Exception, job: Job) -> tuple[str, ExitCode]:
    """Return the line about the error that ended a job, and the exit code."""
    # These two come first: `explain` imports packages that may be missing, or names that another Spark may lack.
    if isinstance(error, MissingExtraError | OtherSparkError):
        return str(error), ExitCode.USAGE
    if (missing := missing_extra(error, "spark", "jobs need")) is not None:
        return str(missing), ExitCode.USAGE
    if isinstance(error, HedwigError):
        from hedwig.pipeline.errors import explain

        return explain(error, job.again)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"the file {os.fsdecode(error.filename)}: {error.strerror}", ExitCode.FAILED
    hint = "above is where" if job.debug else "run with --debug to see where"
    said = f"{type(error).__name__}: {_last_cause(str(error))}"[:_SAID_MAX]
    return f"Spark, or a bug in {PROGRAM_NAME}: {said}; {hint}", ExitCode.FAILED


def _last_cause(text: str) -> str:
    """Return the line that names the error: the last cause of a Java stack trace, the last line of a Python one."""
    lines = [line.strip() for line in text.partition("JVM stacktrace:")[0].splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    said = causes or [line for line in lines if not line.startswith(("at ", "... "))]
    return said[-1] if said else text


_TERMINATED: Final = 143
"""128 + SIGTERM, as shells report it."""
_SAID_MAX: Final = 500


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--master"],
            metavar="URL",
            envvar="HEDWIG_SPARK_MASTER",
            help="Where Spark runs: local[2,4], spark://host:7077, yarn, k8s://…  [HEDWIG_SPARK_MASTER; default: that "
            "of spark-submit, else local[*,4]]",
        ),
        click.Option(
            ["--conf"],
            multiple=True,
            metavar="KEY=VALUE",
            callback=_pairs,
            help="A setting of Spark, such as spark.driver.memory=4g; may be given again.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Write the result as JSON."),
        click.Option(["--debug"], is_flag=True, help="Show Spark's log, and where an error came from."),
    ]


def _pairs(_ctx: click.Context, _option: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        pairs[name] = value
    return pairs
