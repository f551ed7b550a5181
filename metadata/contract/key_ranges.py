"""Key ranges: the records of one kind, cut into shares that many processes can read side by side.

A backend makes the ranges in its own key order. Together they hold all records, and no two overlap. Only the backend
reads the content of a range; callers just pass it on, to another process too.
"""

from dataclasses import dataclass

__all__ = ["KeyRange", "steps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """A share of the records of one kind, made and read by one kind of backend.

    `kind` is the name of the records' kind. Only topics that begin with `prefix` are in the range. `start` is its first
    key, and `stop` the first key behind it, None for the end of all. `listed` is for a backend that cannot read from
    one key to another: the topics that existed when the ranges were made. `rows` is the approximate number of records,
    0 if unknown.

    With `hub`, `host:port:sslport`, a backend may leave out owner records of hubs at other addresses. HBase does.
    """

    kind: str
    prefix: bytes = b""
    start: bytes = b""
    stop: bytes | None = None
    listed: bytes | None = None
    rows: int = 0
    hub: str = ""


def steps(rows: int, parts: int, rows_min: int) -> int:
    """Return how many of `rows` records a range takes, for at most `parts` ranges of at least `rows_min` records."""
    return max(rows_min, -(-rows // parts), 1)
