"""Results as CSV, for spreadsheets, and for programs that read nothing else."""

import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

from hedwig.cli.output.formats import Output, Row, field_names, say_more

__all__ = ["CsvOutput"]


class CsvOutput(Output):
    """One line of names, then one line for each row. A missing value is empty, and a nested one is JSON in its cell.

    A listing has the columns of the table, unless the user chooses others. CSV does not show whether a listing was cut.
    """

    has_companions = False

    def record(self, row: Row) -> None:
        self._check_columns(field_names(row))
        self._open(self.chosen or field_names(row))
        self.page([row])

    def _begin(self, _noun: str, shown: Sequence[str]) -> None:
        self._open(self.chosen or tuple(shown))

    def page(self, rows: Sequence[Row]) -> None:
        self._writer.writerows([_cell(row.get(name)) for name in self._names] for row in rows)
        self._flush()

    def end(self, next_page_token: str | None = None) -> None:
        self._flush()
        if next_page_token is not None:
            say_more(next_page_token)

    def _open(self, names: Sequence[str]) -> None:
        self._names = names
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        if self.header:
            self._writer.writerow(names)


def _cell(value: Any) -> str | int | float:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float() | str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
