"""The options of a command that creates the rows of a file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.arguments.option_group import option_group
from hedwig.metadata.bulk.loading import BATCH_ROWS, BATCHES_IN_FLIGHT
from hedwig.operations.loads.bulk_load import BulkOptions

__all__ = ["bulk_options"]


def bulk_options() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a bulk command. The command gets them as `bulk`, None without -f."""
    options = (
        click.option(
            "-f",
            "--file",
            metavar="FILE",
            type=InputFile(allow_dash=True),
            help="Read names from a tab-separated file, plain or gzip; - is standard input.",
        ),
        click.option(
            "--result",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="With -f: write failures and progress here, and resume from here.  [default: beside the input]",
        ),
        click.option("--restart", is_flag=True, help="With -f: begin anew, and overwrite the result file."),
        click.option(
            "--batch-rows",
            type=click.IntRange(1, 10_000),
            help=f"With -f: rows that go to the store together.  [default: {BATCH_ROWS}]",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 64),
            help=f"With -f: maximum number of batches under way at once.  [default: {BATCHES_IN_FLIGHT}]",
        ),
    )
    return option_group("bulk", options, ("file", "result", "restart", "batch_rows", "in_flight"), _gather)


def _gather(params: Mapping[str, Any]) -> BulkOptions | None:
    given = {name: value for name, value in params.items() if value}
    if "file" in given:
        return BulkOptions(**given)
    for name in given:
        raise click.UsageError(f"--{name.replace('_', '-')} goes with -f FILE")
    return None
