"""Key ranges: the records of one kind, cut into shares that many processes can read side by side.

A backend makes the ranges in its own key order: together they are everything, and none overlaps with another. What a
range says is the backend's own affair; everybody else hands it on, to another process too.
"""

from dataclasses import dataclass

__all__ = ["KeyRange", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A share of the records of one kind, made and read by one kind of backend.

    `kind` is the name of the records' kind; `prefix` leaves only topics that begin so. `start` is the first key of the
    range and `stop` the first one behind it, None for the end of all. `listed` is for a backend that cannot read from
    one key to another: what was there when the ranges were made. `rows`: about so many records are there, 0 if nobody
    knows.
    """

    kind: str
    prefix: bytes = b""
    start: bytes = b""
    stop: bytes | None = None
    listed: bytes | None = None
    rows: int = 0


def steps(rows: int, parts: int, rows_min: int) -> int:
    """Return how many of `rows` records each range has, so that there are `parts` at most, of `rows_min` at least."""
    return max(rows_min, -(-rows // parts), 1)
