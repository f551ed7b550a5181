"""What a job writes to standard output at its end: lines for people, or one JSON document."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import click

from hedwig.human_units import in_words

__all__ = ["write_result"]


def write_result(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Write the result of a job. Its values are plain values, mappings of those, and lists of rows."""
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False, indent=2))
        return
    width = max(map(len, result))
    for name, value in result.items():
        for number, line in enumerate(_lines(name, value)):
            click.echo(f"{'' if number else name:<{width}}  {line}")


def _lines(name: str, value: Any) -> list[str]:
    match value:
        case Mapping():
            return [f"{key}: {_text(key, item)}" for key, item in value.items()] or ["-"]
        case str():
            return [value]
        case Sequence():
            return _rows(value) or ["-"]
        case _:
            return [_text(name, value)]


def _rows(items: Sequence[Any]) -> list[str]:
    """Return the lines of a list. Records become a table under its headings."""
    if not all(isinstance(item, Mapping) for item in items):
        return [str(item) for item in items]
    names = [
        name for name in dict.fromkeys(chain.from_iterable(items)) if any(item.get(name) is not None for item in items)
    ]
    cells = [[_text(name, item.get(name)) for name in names] for item in items]
    table = [[name.replace("_", " ").upper() for name in names], *cells] if items else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _text(name: str, value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return in_words(name, value) or (f"{value:,}" if isinstance(value, int) else f"{value:,.3g}")
        case [] | ():
            return "none"
        case Mapping():
            # Leave out zeros and empty values, unless nothing else is in it.
            said = {key: item for key, item in value.items() if item} or value
            return ", ".join(f"{key} {_text(key, item)}" for key, item in said.items())
        case _:
            return str(value)
