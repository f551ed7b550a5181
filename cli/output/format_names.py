"""The formats that -o takes, by name. A new format needs a class, and its name here."""

from collections.abc import Sequence
from typing import Final

from hedwig.cli.output.formats import JsonOutput, NdjsonOutput, Output, TableOutput

__all__ = ["FORMATS", "make_output"]

FORMATS: Final = ("table", "json", "ndjson", "csv", "yaml")


def make_output(name: str, *, columns: Sequence[str] | None, header: bool) -> Output:
    """Return the writer of a format. `columns` are the fields that the user chose, None for all."""
    match name:
        case "table":
            return TableOutput(columns=columns, header=header)
        case "json":
            return JsonOutput(columns=columns, header=header)
        case "ndjson":
            return NdjsonOutput(columns=columns, header=header)
        case "csv":
            from hedwig.cli.output.csv_output import CsvOutput

            return CsvOutput(columns=columns, header=header)
        case "yaml":
            from hedwig.cli.output.yaml_output import YamlOutput

            return YamlOutput(columns=columns, header=header)
        case _:
            raise ValueError(f"no format {name!r}")
