"""Fields that this code does not know, in an encoding that the records' own form (`packing`) cannot carry.

A record that was read from ZooKeeper may hold such fields in any of its messages. Each message has a slot, a short
text. It is empty for the record itself, `p` or `s` for a part of a subscription, and the index for a ledger range.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, UnknownFields

__all__ = ["foreign_fields", "has_unknown_fields", "with_foreign_fields"]

_NATIVE: Final = "msgpack"


def foreign_fields(record: HubInfo | LedgerRanges | SubscriptionData) -> dict[str, UnknownFields]:
    """Return the unknown fields of a record's messages, by slot, except those that its packed form has."""
    return {slot: fields for slot, fields in _slots(record) if fields is not None and fields.encoding != _NATIVE}


def has_unknown_fields(record: HubInfo | LedgerRanges | SubscriptionData) -> bool:
    """Say whether a record has fields that this code does not know, in any of its messages and encodings."""
    return any(fields is not None for _, fields in _slots(record))


def with_foreign_fields(record: Any, fields: Mapping[str, Any]) -> Any:
    """Return `record` with unknown fields, each an (encoding, payload), put back into their slots.

    Raises: TypeError, ValueError - they are none.
    """
    put = {slot: UnknownFields(str(encoding), bytes(payload)) for slot, (encoding, payload) in fields.items()}
    match record:
        case LedgerRanges():
            ranges = tuple(
                replace(item, unknown=put.get(str(index), item.unknown)) for index, item in enumerate(record.ranges)
            )
            return replace(record, ranges=ranges, unknown=put.get("", record.unknown))
        case SubscriptionData(preferences=preferences, state=state):
            return replace(
                record,
                preferences=preferences and replace(preferences, unknown=put.get("p", preferences.unknown)),
                state=state and replace(state, unknown=put.get("s", state.unknown)),
                unknown=put.get("", record.unknown),
            )
        case _:
            return replace(record, unknown=put.get("", record.unknown))


def _slots(record: HubInfo | LedgerRanges | SubscriptionData) -> Iterator[tuple[str, UnknownFields | None]]:
    yield "", record.unknown
    match record:
        case LedgerRanges(ranges=ranges):
            yield from ((str(index), item.unknown) for index, item in enumerate(ranges))
        case SubscriptionData(preferences=preferences, state=state):
            yield "p", preferences.unknown if preferences is not None else None
            yield "s", state.unknown if state is not None else None
