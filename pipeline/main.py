"""The command hedwig-pipeline."""

import sys
from typing import Final, NoReturn

import click

from hedwig.lazy_commands import LazyCommands
from hedwig.pipeline.command import JobGroup

__all__ = ["jobs", "main"]

_JOBS: Final = ("generate", "load", "snapshot", "restore", "migrate", "diff", "audit")
"""The module of a job is imported only when that job is asked for."""


@click.command(
    cls=JobGroup,
    commands=LazyCommands({job: f"hedwig.pipeline.jobs.{job}:command" for job in _JOBS}, "spark"),
    example="hedwig-pipeline snapshot sqlite:///./hedwig.db ./snapshot",
)
@click.version_option(package_name="hedwig-pubsub", prog_name="hedwig-pipeline")
def jobs() -> None:
    """Move, snapshot and audit the metadata of Hedwig with Spark.

    Without --master a job runs on the processors of this machine. Through spark-submit the same jobs run on a cluster:
    spark-submit --master URL …/pipeline/__main__.py JOB …

    Exit codes: 0 done, 1 failed (diff: something differs), 2 usage, 3 not found, 4 version conflict, 5 outcome unknown,
    6 store unavailable, 130 interrupted.
    """


def main() -> NoReturn:
    """Run the job that the command line names, and exit with its code."""
    assert isinstance(jobs, JobGroup), "it was made as one"
    sys.exit(jobs.run_line(sys.argv[1:]))
