"""Which start of a standalone hub made a ledger. The high bits of the ledger's id say it.

Range records name ledgers by id alone. With the start in front, no two data directories that ever served the same
metadata share a ledger id. So a hub refuses a topic whose messages are in another directory, and never serves it
messages of other topics.
"""

from typing import Final

__all__ = ["first_ledger_id", "start_of"]

_BITS: Final = 32


def first_ledger_id(start: int) -> int:
    """Return the lowest ledger id that this start of a hub may use."""
    return start << _BITS


def start_of(ledger_id: int) -> int:
    """Return the start that made a ledger. If the metadata were wiped it may be a later one, but never an earlier."""
    return ledger_id >> _BITS
