"""Virtual ledger ids: which log, and which slot in it. The ledgers of topics are numbers in a shared log.

    bit 62 is set | log number, 30 bits | slot, 32 bits

Neither BookKeeper nor the local store gives ids of this size. So an id alone says of which kind its ledger is.
"""

from typing import Final

from hedwig.errors import InvalidArgumentError

__all__ = ["FIRST_SLOT", "LOG_MAX", "SLOT_MAX", "is_virtual", "log_of", "slot_of", "virtual_id"]

_MARK: Final = 1 << 62
_SLOT_BITS: Final = 32
LOG_MAX: Final = (1 << 30) - 1
SLOT_MAX: Final = (1 << _SLOT_BITS) - 1
FIRST_SLOT: Final = 1
"""Slot 0 is that of the log's own records."""


def virtual_id(log: int, slot: int) -> int:
    """Return the id of the ledger in `slot` of a log. Raises: InvalidArgumentError - a number is out of its bounds."""
    if not 0 <= log <= LOG_MAX:
        raise InvalidArgumentError(f"log {log} has no virtual ledgers: logs are numbered 0 to {LOG_MAX}")
    if not FIRST_SLOT <= slot <= SLOT_MAX:
        raise InvalidArgumentError(f"slot {slot} is no ledger: slots are numbered {FIRST_SLOT} to {SLOT_MAX}")
    return _MARK | log << _SLOT_BITS | slot


def is_virtual(ledger_id: int) -> bool:
    """Say whether a ledger is one in a shared log."""
    return bool(ledger_id & _MARK)


def log_of(ledger_id: int) -> int:
    """Return the number of the log of a virtual ledger."""
    return ledger_id >> _SLOT_BITS & LOG_MAX


def slot_of(ledger_id: int) -> int:
    """Return the slot of a virtual ledger in its log."""
    return ledger_id & SLOT_MAX
