"""Which start of a standalone hub made a ledger: it is in the ledger's id.

Range records name ledgers by id alone. With the start in front no two data directories that ever served the same
metadata have a ledger id in common, so a topic whose messages are elsewhere is refused and not given others.
"""

from typing import Final

__all__ = ["first_ledger_id", "start_of"]

_BITS: Final = 32


def first_ledger_id(start: int) -> int:
    """Return the least id of a ledger that this start of a hub may make."""
    return start << _BITS


def start_of(ledger_id: int) -> int:
    """Return the start that made a ledger; a later one may have, if metadata were wiped, and never an earlier one."""
    return ledger_id >> _BITS
