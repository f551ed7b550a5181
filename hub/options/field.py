"""A field of a record of options, with a text that says what the option is for."""

from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

from hedwig.access.mechanisms import MECHANISMS
from hedwig.errors import ConfigurationError

__all__ = ["check_mechanisms", "check_ranges", "explain", "option"]

T = TypeVar("T")


def option(default: T, what: str) -> T:
    """Return a field with this default; `what` says what the option is for."""
    made: T = field(default=default, metadata={"what": what})
    return made


def explain(record: Any) -> Mapping[str, str]:
    """Return what each option of a record, or of its class, is for: by name, in order."""
    return {each.name: each.metadata["what"] for each in fields(record)}


def check_ranges(record: Any, bounds: Iterable[tuple[str, int, int]], table: str = "") -> None:
    """Raise ConfigurationError for the first option of a record that is not from `least` to `most`.

    `bounds` are (name, least, most); `table` is the table of the record in a file of options, such as `cluster`.
    """
    head = f"{table}: " if table else ""
    for name, least, most in bounds:
        value = getattr(record, name)
        if not least <= value <= most:
            raise ConfigurationError(f"{head}{name} is {value}; it must be from {least} to {most}")


def check_mechanisms(head: str, names: Iterable[str]) -> None:
    """Raise ConfigurationError, whose text begins with `head`, if one is no mechanism that hubs know."""
    for name in names:
        if name not in MECHANISMS:
            raise ConfigurationError(f"{head}mechanisms names {name!r}; hubs know {', '.join(MECHANISMS)}")
