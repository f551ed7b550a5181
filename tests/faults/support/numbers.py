"""Records that carry a number, and the number of a record, by which a test knows which write it sees."""

from typing import Any

from hedwig.errors import BadVersionError
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData
from hedwig.versions import Versioned

__all__ = ["number_of", "shown"]


def number_of(record: Any) -> int:
    """Return the number from which `Door.value` made `record`."""
    match record:
        case HubInfo():
            return record.epoch
        case LedgerRanges():
            return record.ranges[0].ledger_id
        case SubscriptionData():
            assert record.state is not None
            return record.state.consumed.local
    raise AssertionError(f"not a record of a test: {record!r}")


def shown(refusal: BadVersionError) -> Versioned[Any]:
    """Return the record that a refusal shows; every refusal must show one."""
    assert refusal.current is not None, f"{refusal!r} does not show the record"
    return refusal.current
