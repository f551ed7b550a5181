"""Conditions on the topic that a reader takes over from Spark. Spark does not check them again."""

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
    """Narrow `names` by each of `filters` that the reader can apply exactly; return the names and the other filters."""
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
    """Return the `start` and `stop` of the topics that fulfil a condition; None if it cannot be taken over."""
    given = getattr(condition, "value", None)
    if getattr(condition, "attribute", None) != _TOPIC or not isinstance(given, bytes | bytearray):
        return None
    value = bytes(given)
    # No name lies between a name and the same name with a zero byte appended.
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
