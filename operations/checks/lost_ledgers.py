"""Whether a ledger has what a range says of it, and how a finding tells it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.model import LedgerRange
from hedwig.operations.deployment.ledgers import ledger_name

if TYPE_CHECKING:
    from hedwig.hub.ledgers.census import LedgerEntry

__all__ = ["lost_text", "why_lost"]

_MOST: Final = 8
_ABSENT: Final = ""


def why_lost(each: LedgerRange, entry: "LedgerEntry | None") -> str | None:
    """Say why messages of a range that holds some are lost, by what is recorded of its ledger; None if they are not."""
    if entry is None:
        return _ABSENT
    if entry.lost is not None or not is_virtual(each.ledger_id):
        return entry.lost
    last, end = entry.last_entry_id, each.end
    if last is None or end is None or each.start is None or each.start + last >= end.local:
        return None
    return f"its log lacks message {each.start + last + 1}"


def lost_text(lost: Mapping[int, str], where: str) -> str:
    """Return what a finding says of ledgers `lost` from `where`, by the reason that `why_lost` returns."""
    absent = [ledger_id for ledger_id, why in lost.items() if why == _ABSENT]
    parts = [f"{ledger_name(ledger_id)}: {why}" for ledger_id, why in lost.items() if why != _ABSENT]
    more = [f"and {len(parts) - _MOST:,} more"] if len(parts) > _MOST else []
    return "; ".join([*([f"{_named(absent)} on record, and not in {where}"] if absent else []), *parts[:_MOST], *more])


def _named(ledger_ids: list[int]) -> str:
    if len(ledger_ids) == 1:
        return f"{ledger_name(ledger_ids[0])} is"
    return f"ledgers {', '.join(map(str, ledger_ids[:_MOST]))}{' …' if len(ledger_ids) > _MOST else ''} are"
