"""Altered histories, which may be wrong or still right: one report changed, moved in time, or left out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Operation

__all__ = ["WAYS", "mutated"]

WAYS: Final = 5


def mutated(history: Sequence[Operation[Any, Any]], way: int, one: int, other: int) -> list[Operation[Any, Any]]:
    """Return a history with one report altered in one of `WAYS` ways, after the example of another report."""
    altered = list(history)
    if not altered:
        return altered
    one, other = one % len(altered), other % len(altered)
    example = altered[other]
    match way:
        case 0:
            altered[one] = replace(altered[one], output=example.output)
        case 1:
            altered[one] = replace(altered[one], start=example.start, end=example.end)
        case 2:
            altered[one] = replace(altered[one], output=UNKNOWN)
        case 3:
            altered[one] = replace(altered[one], output=NOT_APPLIED)
        case 4:
            del altered[one]
    return altered
