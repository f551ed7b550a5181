"""Options that several jobs have: how a store is read, and how it is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from hedwig.names import parse_name

__all__ = ["ScanWish", "WriteWish", "scan_options", "write_options"]


@dataclass(frozen=True, slots=True)
class ScanWish:
    """How a store is read: options of the data source, by their names there."""

    options: Mapping[str, str]

    @property
    def prefix(self) -> bytes:
        """Return what the topics begin with."""
        return parse_name(self.options.get("prefix", ""))


@dataclass(frozen=True, slots=True)
class WriteWish:
    """How a store is written: options of the data source, by their names there."""

    options: Mapping[str, str]


_SCAN = {
    "prefix": click.option("--prefix", metavar="TEXT", help="Only topics that begin so; a byte may be written \\xNN."),
    "rowsPerPartition": click.option(
        "--rows-per-partition", type=click.IntRange(1), help="How many rows a task reads, about.  [default: 500,000]"
    ),
}
_WRITE = {
    "policy": click.option(
        "--policy",
        type=click.Choice(["create", "replace", "overwrite"]),
        default="create",
        show_default=True,
        help="create: only what is not there; replace: what is at the version of the rows, too; overwrite: all, with "
        "--hubs-stopped, into an empty store.",
    ),
    "hubsStopped": click.option("--hubs-stopped", is_flag=True, help="No hub uses the store: take my word for it."),
    "connections": click.option("--connections", type=click.IntRange(1), help="Connections to the store for each task."),
    "maxOpsPerSecond": click.option(
        "--max-ops-per-second", type=click.IntRange(1), help="Most writes a second of all tasks together."
    ),
}


def scan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which a store is read; the job gets them as `scan`."""
    return _grouped(command, "scan", _SCAN, ScanWish)


def write_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which a store is written; the job gets them as `write`."""
    return _grouped(command, "write", _WRITE, WriteWish)


def _grouped(
    command: Callable[..., Any], name: str, options: Mapping[str, Any], make: Callable[[Mapping[str, str]], Any]
) -> Callable[..., Any]:
    # `rowsPerPartition` of the data source is --rows-per-partition here, and rows_per_partition among the parameters.
    parameters = {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): key for key in options}

    @wraps(command)
    def grouped(*arguments: Any, **given: Any) -> Any:
        chosen = {key: given.pop(parameter) for parameter, key in parameters.items()}
        said = {key: _text(value) for key, value in chosen.items() if value not in (None, False)}
        return command(*arguments, **given, **{name: make(said)})

    made: Callable[..., Any] = grouped
    for option in reversed(list(options.values())):
        made = option(made)
    return made


def _text(value: Any) -> str:
    return "true" if value is True else str(value)
