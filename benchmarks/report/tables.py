"""Results as tables: for a terminal, and as Markdown."""

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table as Shown

from hedwig.benchmarks.charts.sections import TextTable
from hedwig.benchmarks.runs.results import Result
from hedwig.benchmarks.runs.resumption import later_words
from hedwig.benchmarks.suites.registry import suite_of

__all__ = ["markdown", "show_result", "terms"]

_WIDTH: Final = 200
"""The width of a table that goes into a file or a pipe."""


def terms(result: Result) -> list[str]:
    """Return the lines that stand above a result's table: what holds for all of its numbers."""
    machine = result.environment
    commit = machine["commit"] or "no commit"
    dirty = " with changes" if machine["is_dirty"] else ""
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    gib = machine["memory_bytes"] / (1 << 30)
    return [
        f"{result.program}, {result.started}, commit {commit[:12]}{dirty}{later_words(machine)}"
        + ("" if result.is_complete else "; the run was not finished"),
        f"{machine['cpus']} processors ({machine['cpu']}), {gib:.0f} GiB, {machine['disk_syncs_per_s']:,.0f} synced "
        f"appends of 4 KiB a second, load average {machine['load_average']:.1f} before; {machine['kernel']}",
        f"{machine['python']}, {libraries}, SQLite {machine['sqlite']}, Java: {machine['java'] or 'none'}",
        "terms: " + ", ".join(f"{name} {_term(value)}" for name, value in result.terms.items()),
    ]


def _term(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_term(each)}" for name, each in value.items())
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def show_result(result: Result, *, as_json: bool = False, as_markdown: bool = False) -> None:
    """Print a result to standard output."""
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=1))
    elif as_markdown:
        click.echo(markdown(result))
    else:
        _print_tables(result, Console() if sys.stdout.isatty() else Console(width=_WIDTH))


def _print_tables(result: Result, console: Console) -> None:
    for term in terms(result):
        console.print(term, highlight=False, markup=False)
    for name, columns, lines in suite_of(result.program).tables(result.measurements):
        # An empty column of notes would only take width.
        shown = [index for index, title in enumerate(columns) if title != "notes" or any(line[index] for line in lines)]
        table = Shown(title=name or None, title_justify="left")
        for index in shown:
            table.add_column(columns[index], overflow="fold")
        for line in lines:
            table.add_row(*(line[index] for index in shown))
        console.print(table, markup=False)


def markdown(result: Result) -> str:
    """Return a result as Markdown."""
    written = [f"- {line}" for line in terms(result)]
    for table in suite_of(result.program).tables(result.measurements):
        written += ["", *([f"**{table.title}**", ""] if table.title else []), *_lines(table)]
    return "\n".join(written) + "\n"


def _lines(table: TextTable) -> list[str]:
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table.lines]
    return ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns), *rows]
