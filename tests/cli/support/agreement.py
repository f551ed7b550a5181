"""Compares the results of one command in all formats."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import yaml

__all__ = ["check_agreement"]


def check_agreement(results: Mapping[str, str]) -> None:
    """Check that the `results`, by format, have the same fields, of the same types, in all rows."""
    document = json.loads(results["json"])
    assert _shape(yaml.safe_load(results["yaml"])) == _shape(document)
    rows = [json.loads(line) for line in results["ndjson"].splitlines()]
    is_listing = "next_page_token" in document
    listed = next(iter(document.values())) if is_listing else [document]
    assert [_shape(row) for row in rows] == [_shape(row) for row in listed]
    header, *cells = csv.reader(io.StringIO(results["csv"], newline=""))
    assert len(cells) == len(listed)
    fields = {name for row in listed for name in row if not name.endswith("_base64")}
    if listed:
        assert set(header) <= fields if is_listing else set(header) == fields
    # Where there are no changes, people get words instead.
    assert results["table"] or ("repairs" in document and not listed)


def _shape(value: Any) -> Any:
    """Return a value with its leaves, which may differ between two runs, replaced by their types."""
    match value:
        case dict():
            return {name: _shape(item) for name, item in value.items()}
        case list():
            return [_shape(item) for item in value]
        case float():
            return int
        case _:
            return type(value)
