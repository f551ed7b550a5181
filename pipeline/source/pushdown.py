"""Conditions on the topic that a reader takes over from Spark, which does not check them again."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from hedwig.pipeline.source.plan import NameRange

__all__ = ["narrowed"]

_TOPIC: Final = ("topic",)


def narrowed(names: NameRange, filters: Iterable[Filter]) -> tuple[NameRange, list[Filter]]:
    """Return the topics that are left by those of `filters` that can be kept exactly, and the other filters."""
    rest = []
    for condition in filters:
        ends = _ends(condition)
        if ends is None:
            rest.append(condition)
            continue
        start, stop = ends
        stops = [each for each in (names.stop, stop) if each is not None]
        names = replace(names, start=max(names.start, start), stop=min(stops, default=None))
    return names, rest


def _ends(condition: Any) -> tuple[bytes, bytes | None] | None:
    """Return where the topics begin and end that fulfil a condition; None if it is not about that."""
    given = getattr(condition, "value", None)
    if getattr(condition, "attribute", None) != _TOPIC or not isinstance(given, bytes | bytearray):
        return None
    value = bytes(given)
    # No other name is between one and the same with a zero byte behind it.
    behind = value + b"\0"
    match condition:
        case EqualTo() | EqualNullSafe():
            return value, behind
        case GreaterThanOrEqual():
            return value, None
        case GreaterThan():
            return behind, None
        case LessThan():
            return b"", value
        case LessThanOrEqual():
            return b"", behind
        case _:
            return None
