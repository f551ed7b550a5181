"""Options that several jobs share: how to read a store, and how to write it."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

import click

from hedwig.pipeline.frames.tables import (
    BATCH_ROWS_MAX,
    CONNECTIONS_MAX,
    ROWS_PER_PARTITION,
    ROWS_PER_PARTITION_MAX,
    TIMEOUT_MAX_S,
)
from hedwig.pipeline.source.job_options import ScanOptions, WriteOptions

__all__ = [
    "corrupt_option",
    "folder_name",
    "scan_options",
    "timeout_option",
    "write_options",
]


_ON_CORRUPT: Final = {
    "on_corrupt": click.option(
        "--on-corrupt",
        type=click.Choice(["fail", "skip"]),
        default="fail",
        show_default=True,
        help="What to do about records that cannot be read: end the job at the first, or pass over and count them.",
    ),
}
_SCAN: Final = {
    "prefix": click.option(
        "--prefix", metavar="TEXT", help="Only topics that begin with TEXT; a byte may be written \\xNN."
    ),
    "rows_per_partition": click.option(
        "--rows-per-partition",
        type=click.IntRange(1, ROWS_PER_PARTITION_MAX),
        help=f"About how many rows a task reads.  [default: {ROWS_PER_PARTITION:,}]",
    ),
    **_ON_CORRUPT,
}
_OF_SOURCE: Final = {"prefix": "prefix", "rows_per_partition": "rowsPerPartition", "on_corrupt": "onCorrupt"}
"""The names of these options in the data source."""
_WRITE: Final = {
    "policy": click.option(
        "--policy",
        type=click.Choice(["create", "replace", "overwrite"]),
        default="create",
        show_default=True,
        help="What to do about a record that exists already. Keep it, replace it if it is at the version of the row, "
        "or overwrite it, with --hubs-stopped.",
    ),
    "hubs_stopped": click.option("--hubs-stopped", is_flag=True, help="Confirm that no hub uses the store."),
    "connections": click.option(
        "--connections",
        type=click.IntRange(1, CONNECTIONS_MAX),
        help="Batches under way at once for each task.  [default: 4]",
    ),
    "batch_rows": click.option(
        "--batch-rows", type=click.IntRange(1, BATCH_ROWS_MAX), help="Rows of a batch.  [default: 512]"
    ),
}


def folder_name(_ctx: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    """Return the folder as it was given. Raises ConfigurationError - Spark would write it, and not find it again."""
    if given is not None:
        from hedwig.pipeline.snapshots.preflight import check_folder

        check_folder(given)
    return given


def scan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a store; the job gets them as `scan`."""
    return _grouped(command, "scan", _SCAN, _scan_options)


def corrupt_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add only `--on-corrupt`, for a job that always reads a whole store; the job gets it as `scan`."""
    return _grouped(command, "scan", _ON_CORRUPT, _scan_options)


def write_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for writing a store; the job gets them as `write`."""
    return _grouped(command, "write", _WRITE, WriteOptions)


def timeout_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for how long a store may take for one request; the job gets it as `timeout_s`."""
    return click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.IntRange(1, TIMEOUT_MAX_S),
        default=30,
        show_default=True,
        help="How long a store may take for one request.",
    )(command)


def _scan_options(chosen: Mapping[str, Any]) -> ScanOptions:
    return ScanOptions({_OF_SOURCE[name]: str(value) for name, value in chosen.items()})


def _grouped(
    command: Callable[..., Any], name: str, options: Mapping[str, Any], make: Callable[[Mapping[str, Any]], Any]
) -> Callable[..., Any]:
    @wraps(command)
    def grouped(*arguments: Any, **given: Any) -> Any:
        chosen = {option: given.pop(option) for option in options}
        said = {option: value for option, value in chosen.items() if value is not None}
        return command(*arguments, **given, **{name: make(said)})

    made: Callable[..., Any] = grouped
    for option in reversed(list(options.values())):
        made = option(made)
    return made
