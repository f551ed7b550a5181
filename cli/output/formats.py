"""How results are written: one class for each format, which writes one page of rows after the other.

Rows are plain JSON values by field name. In the formats that are documents (JSON, NDJSON and YAML), a companion field
like `topic_base64` goes wherever its field goes.
"""

import json
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import click
from rich.cells import cell_len, set_cell_size

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import in_words

__all__ = ["JsonOutput", "NdjsonOutput", "Output", "Row", "TableOutput", "field_names", "is_field", "say_more"]

Row: TypeAlias = Mapping[str, Any]

_COMPANION: Final = "_base64"
_GAP: Final = "  "
_encoder: Final = json.JSONEncoder(ensure_ascii=False).encode
"""json.dumps would make a new encoder for each row of a listing."""
_CONTROLS: Final = re.compile("[\x7f-\x9f]")
"""Characters that JSON leaves as they are, and some terminals take for commands."""


class Output(ABC):
    """A format. Data goes to standard output as it arrives; messages to people go to standard error."""

    has_companions: ClassVar[bool] = True
    """Whether bytes that are no text have a companion field, so that text can be written unchanged."""

    def __init__(self, *, columns: Sequence[str] | None = None, header: bool = True) -> None:
        self.chosen = tuple(columns) if columns is not None else None
        self.header = header

    @abstractmethod
    def record(self, row: Row) -> None:
        """Write a single record."""

    def begin(self, noun: str, known: Sequence[str], shown: Sequence[str]) -> None:
        """Begin a listing of things whose plural is `noun`.

        `known` are the fields that its rows can have. `shown` are those that people see unless they choose others.
        Raises: OperationError - a field was chosen that is not known.
        """
        self._check_columns(known)
        self._begin(noun, shown)

    @abstractmethod
    def _begin(self, noun: str, shown: Sequence[str]) -> None:
        """Write what comes before the first row."""

    @abstractmethod
    def page(self, rows: Sequence[Row]) -> None:
        """Write the next rows of the listing."""

    @abstractmethod
    def end(self, next_page_token: str | None = None) -> None:
        """End the listing. If it was cut, `next_page_token` says where to go on."""

    def end_described(self) -> None:
        """End a listing that a message to people describes, too. An empty table then has not even a header."""
        self.end()

    def listing(self, noun: str, rows: Sequence[Row], known: Sequence[str]) -> None:
        """Write a listing whose rows are all known."""
        self.begin(noun, known, known)
        self.page(rows)
        self.end()

    def _check_columns(self, known: Sequence[str]) -> None:
        """Raise OperationError if the user chose a field that is not `known`."""
        for name in self.chosen or ():
            if name not in known:
                raise OperationError(
                    f"there is no column {name!r} here; choose from {', '.join(known)}", ExitCode.USAGE
                )

    def _choose(self, row: Row) -> Row:
        if self.chosen is None:
            return row
        companions = (name + _COMPANION for name in self.chosen)
        return {name: row[name] for name in (*self.chosen, *companions) if name in row}

    def _write(self, text: str) -> None:
        sys.stdout.write(text)

    def _flush(self) -> None:
        sys.stdout.flush()


class JsonOutput(Output):
    """One JSON document: an object, or for a listing `{"NOUN": [...], "next_page_token": ...}`, written row by row."""

    def record(self, row: Row) -> None:
        self._check_columns(field_names(row))
        self._write(_harmless(json.dumps(self._choose(row), ensure_ascii=False, indent=2)) + "\n")

    def _begin(self, noun: str, _shown: Sequence[str]) -> None:
        self._write("{\n  " + json.dumps(noun) + ": [")
        self._between = "\n    "

    def page(self, rows: Sequence[Row]) -> None:
        if rows:
            self._write(self._between + ",\n    ".join([_encode(self._choose(row)) for row in rows]))
            self._between = ",\n    "
        self._flush()

    def end(self, next_page_token: str | None = None) -> None:
        close = "]" if self._between == "\n    " else "\n  ]"
        self._write(f'{close},\n  "next_page_token": {json.dumps(next_page_token)}\n}}\n')


class NdjsonOutput(Output):
    """One JSON object for each line. A listing that was cut ends with a line `{"next_page_token": ...}`."""

    def record(self, row: Row) -> None:
        self._check_columns(field_names(row))
        self._write(_line(self._choose(row)))

    def _begin(self, _noun: str, _shown: Sequence[str]) -> None:
        return

    def page(self, rows: Sequence[Row]) -> None:
        self._write("".join([_line(self._choose(row)) for row in rows]))
        self._flush()

    def end(self, next_page_token: str | None = None) -> None:
        if next_page_token is not None:
            self._write(_line({"next_page_token": next_page_token}))


class TableOutput(Output):
    """Columns for people. On a terminal cells are cut to its width. Elsewhere nothing is ever cut."""

    has_companions = False

    def record(self, row: Row) -> None:
        self._check_columns(field_names(row))
        names = self.chosen or field_names(row)
        lines = [(name, line) for name in names for line in _lines(name, row.get(name))]
        width = max(map(len, names))
        room = _room()
        last = None
        for name, line in lines:
            label = "" if name == last else name
            last = name
            head = _bold(label.ljust(width)) + _GAP if self.header else ""
            self._write(head + _cut(line, room - width - len(_GAP) if room else None) + "\n")

    def _begin(self, _noun: str, shown: Sequence[str]) -> None:
        self._names = self.chosen or tuple(shown)
        # A table without rows still has its header.
        self._widths = [len(name) if self.header else 0 for name in self._names]
        self._header_due = self.header

    def page(self, rows: Sequence[Row]) -> None:
        cells = [[_text(row.get(name), name) for name in self._names] for row in rows]
        self._widen(cells)
        self._write_header()
        self._write("".join([self._format(line) + "\n" for line in cells]))
        self._flush()

    def end(self, next_page_token: str | None = None) -> None:
        self._write_header()
        self._flush()
        if next_page_token is not None:
            say_more(next_page_token)

    def end_described(self) -> None:
        self._header_due = False  # The header is written already if there was a row.
        self.end()

    def _widen(self, cells: Sequence[Sequence[str]]) -> None:
        for index in range(len(self._names)):
            self._widths[index] = max([self._widths[index], *(_width(line[index]) for line in cells)])
        room = _room()
        if room:
            spare = room - len(_GAP) * (len(self._widths) - 1) - sum(self._widths)
            while spare < 0 and max(self._widths) > 8:
                widest = self._widths.index(max(self._widths))
                self._widths[widest] -= 1
                spare += 1

    def _write_header(self) -> None:
        if self._header_due:
            self._header_due = False
            self._write(_bold(self._format([name.upper() for name in self._names])) + "\n")

    def _format(self, cells: Sequence[str]) -> str:
        # Spaces after the last column would seem a part of it, and a name may end with spaces.
        widths = [*self._widths[:-1], 0]
        cut = [_cut(cell, width) for cell, width in zip(cells, self._widths, strict=True)] if _room() else cells
        return _GAP.join(cell + " " * max(0, width - _width(cell)) for cell, width in zip(cut, widths, strict=True))


def say_more(next_page_token: str) -> None:
    """Tell people how to continue a listing that was cut."""
    click.echo(f"more: give --page-token {next_page_token}, or --all", err=True)


def _encode(row: Row) -> str:
    return _harmless(_encoder(row))


def _harmless(text: str) -> str:
    """Return the same JSON without characters that a terminal takes for commands."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _line(row: Row) -> str:
    return _encode(row) + "\n"


def field_names(row: Row) -> tuple[str, ...]:
    """Return the fields of a row, without companions."""
    return tuple(filter(is_field, row))


def is_field(name: str) -> bool:
    """Say whether a field is no companion of another."""
    return not name.endswith(_COMPANION)


def _text(value: Any, name: str = "") -> str:
    """Return the value of a field as one cell. Sizes and durations, known by their names, are put in words."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return in_words(name, value) or str(value)
        case str():
            return value
        case Mapping():
            # Leave out what a nested value does not have.
            said = {name: item for name, item in value.items() if item not in (None, {}) and is_field(name)}
            return " ".join(f"{name}={_text(item, name)}" for name, item in said.items()) or "-"
        case _:
            return ", ".join(_text(item) for item in value) or "-"


def _lines(name: str, value: Any) -> list[str]:
    """Return the value of a field of a single record as lines: a list has one line for each item."""
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [_text(item) for item in value]
    return [_text(value, name)]


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _cut(text: str, width: int | None) -> str:
    if width is None or _width(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + "…"


def _room() -> int:
    """Return the width of the terminal behind standard output, 0 if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _bold(text: str) -> str:
    return click.style(text, bold=True) if sys.stdout.isatty() else text
