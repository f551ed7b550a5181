"""A field of a record of options, which says to people what the option is for."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, TypeVar

__all__ = ["explain", "option"]

T = TypeVar("T")


def option(default: T, what: str) -> T:
    """Return a field with this default."""
    made: T = field(default=default, metadata={"what": what})
    return made


def explain(record: Any) -> Mapping[str, str]:
    """Return what each option of a record, or of its class, is for, by its name and in its order."""
    return {each.name: each.metadata["what"] for each in fields(record)}
