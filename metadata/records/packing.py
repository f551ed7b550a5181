"""The msgpack form of the records, shared by the backends whose layout is our own (SQLite and HBase).

Every record, and every record inside one, is a map with one-letter keys. Keys that this code does not know belong to a
newer minor format: they are kept in `UnknownFields` and written back. docs/explanation/metadata.md lists the keys.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgpack

from hedwig.errors import CorruptRecordError
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    UnknownFields,
)

__all__ = [
    "PartCodec",
    "damage_of",
    "pack_hub_info",
    "pack_ledger_ranges",
    "pack_preferences",
    "pack_state",
    "part_codec",
    "unpack_hub_info",
    "unpack_ledger_ranges",
    "unpack_preferences",
    "unpack_state",
    "unpack_subscription",
]

R = TypeVar("R")
T = TypeVar("T")

_ENCODING: Final = "msgpack"


@dataclass(frozen=True, slots=True)
class PartCodec(Generic[R]):
    """How a record becomes one stored value for each of its parts: a tuple in the order of `parts`, None for absent."""

    parts: tuple[str, ...]
    pack: Callable[[R], tuple[bytes | None, ...]]
    unpack: Callable[[Sequence[bytes | None]], R]

    def read(self, what: str, key: RecordKey, values: Sequence[bytes | None]) -> R:
        """Return the record of stored values. Raises CorruptRecordError, naming the record, if they hold none."""
        try:
            return self.unpack(values)
        except (ValueError, TypeError, KeyError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(f"the {what} of {key} cannot be read: {damage_of(exc)}") from exc


def damage_of(error: Exception) -> str:
    """Return in words why bytes could not be read as a map of msgpack."""
    match error:
        case msgpack.ExtraData():
            return "other bytes follow behind its end"
        case msgpack.FormatError():
            return "it holds a byte that begins no value in msgpack"
        case msgpack.StackError():
            return "it is nested too deeply"
        case UnicodeDecodeError():
            return "a text in it is not UTF-8"
        case KeyError():
            return f"its field {error} is missing"
        case ValueError() if "incomplete input" in str(error) or "exceeds max_" in str(error):
            return "it ends too early"
        case _:
            return str(error) or type(error).__name__


def part_codec(kind: RecordKind[R]) -> PartCodec[R]:
    """Return the codec of a record kind."""
    codec: PartCodec[R] = _CODECS[kind.name]
    return codec


def pack_hub_info(hub: HubInfo) -> bytes:
    fields = {"h": hub.host, "p": hub.port, "s": hub.ssl_port, "e": hub.epoch, "l": hub.log}
    return _pack(fields, hub.unknown)


def mark_of_hub(hub: HubInfo) -> bytes:
    """Return bytes that are in each packed record of a hub with this host and port."""
    return _pack({"h": hub.host, "p": hub.port}, None)[1:]


@lru_cache(maxsize=64)
def unpack_hub_info(raw: bytes) -> HubInfo:
    """Return the hub in an owner record. A scan meets the same few hubs very often."""
    fields = _unpack(raw)
    return HubInfo(
        host=_take(fields, "h", str),
        port=_take(fields, "p", int),
        ssl_port=_take_optional(fields, "s", int),
        epoch=_take(fields, "e", int),
        log=_take_optional(fields, "l", int),
        unknown=_rest(fields),
    )


def pack_ledger_ranges(ranges: LedgerRanges) -> bytes:
    return _pack({"r": [_range_fields(item) for item in ranges.ranges]}, ranges.unknown)


def unpack_ledger_ranges(raw: bytes) -> LedgerRanges:
    fields = _unpack(raw)
    items = tuple(_unpack_range(_as_map(item)) for item in _take(fields, "r", list))
    return LedgerRanges(items, _rest(fields))


def pack_preferences(preferences: SubscriptionPreferences) -> bytes:
    fields = {
        "o": dict(preferences.options) or None,
        "b": preferences.message_bound,
        "f": preferences.message_filter,
        "w": preferences.message_window_size,
    }
    return _pack(fields, preferences.unknown)


def unpack_preferences(raw: bytes) -> SubscriptionPreferences:
    fields = _unpack(raw)
    options = _take_optional(fields, "o", dict) or {}
    if not all(isinstance(key, str) and isinstance(value, bytes) for key, value in options.items()):
        raise ValueError("options are a map of text to bytes")
    return SubscriptionPreferences(
        options=options,
        message_bound=_take_optional(fields, "b", int),
        message_filter=_take_optional(fields, "f", str),
        message_window_size=_take_optional(fields, "w", int),
        unknown=_rest(fields),
    )


def pack_state(state: SubscriptionState) -> bytes:
    return _pack({"c": _seq_id_fields(state.consumed)}, state.unknown)


def unpack_state(raw: bytes) -> SubscriptionState:
    fields = _unpack(raw)
    return SubscriptionState(_seq_id(fields.pop("c", None)), _rest(fields))


def unpack_subscription(preferences: bytes | None, state: bytes | None) -> SubscriptionData:
    """Return the subscription of two stored parts; an empty part counts as absent."""
    return SubscriptionData(
        preferences=unpack_preferences(preferences) if preferences else None,
        state=unpack_state(state) if state else None,
    )


def _range_fields(item: LedgerRange) -> dict[str, Any]:
    end = None if item.end is None else _seq_id_fields(item.end)
    return _fields({"i": item.ledger_id, "a": item.start, "z": end}, item.unknown)


def _unpack_range(fields: dict[str, Any]) -> LedgerRange:
    end = fields.pop("z", None)
    return LedgerRange(
        ledger_id=_take(fields, "i", int),
        start=_take_optional(fields, "a", int),
        end=None if end is None else _seq_id(end),
        unknown=_rest(fields),
    )


def _seq_id_fields(seq_id: MessageSeqId) -> int | list[Any]:
    """Return the local id alone, or a list of it and a (region, id) pair for each remote component."""
    if not seq_id.remote:
        return seq_id.local
    return [seq_id.local, *([item.region, item.seq_id] for item in seq_id.remote)]


def _seq_id(value: Any) -> MessageSeqId:
    if isinstance(value, int):
        return MessageSeqId(value)
    if not isinstance(value, list) or not value:
        raise ValueError(f"a message sequence id is a number or a list, not {type(value).__name__}")
    local, *remote = value
    return MessageSeqId(local, tuple(RegionSeqId(region, seq_id) for region, seq_id in remote))


def _fields(known: Mapping[str, Any], unknown: UnknownFields | None) -> dict[str, Any]:
    """Return the map to store: the known fields that are set, then the fields that only a newer format knows."""
    fields = {key: value for key, value in known.items() if value is not None}
    if unknown is not None and unknown.encoding == _ENCODING:
        for key, value in _unpack(unknown.payload).items():
            fields.setdefault(key, value)
    return fields


def _pack(known: Mapping[str, Any], unknown: UnknownFields | None) -> bytes:
    packed: bytes = msgpack.packb(_fields(known, unknown))
    return packed


def _unpack(raw: bytes) -> dict[str, Any]:
    return _as_map(msgpack.unpackb(raw))


def _as_map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a record is a map, not {type(value).__name__}")
    return value


def _take(fields: dict[str, Any], key: str, kind: type[T]) -> T:
    """Take a required field out of `fields`."""
    value = fields.pop(key)
    if not isinstance(value, kind):
        raise ValueError(f"field {key!r} is {type(value).__name__}, not {kind.__name__}")
    return value


def _take_optional(fields: dict[str, Any], key: str, kind: type[T]) -> T | None:
    if fields.get(key) is None:
        fields.pop(key, None)
        return None
    return _take(fields, key, kind)


def _rest(fields: dict[str, Any]) -> UnknownFields | None:
    """Return the fields that no known field took, None if there are none."""
    return UnknownFields(_ENCODING, msgpack.packb(fields)) if fields else None


def _one(value: bytes | None) -> bytes:
    if not value:
        raise ValueError("the record is empty")
    return value


_CODECS: Final[Mapping[str, PartCodec[Any]]] = {
    OWNERSHIP.name: PartCodec(
        ("record",), lambda hub: (pack_hub_info(hub),), lambda values: unpack_hub_info(_one(values[0]))
    ),
    PERSISTENCE.name: PartCodec(
        ("record",), lambda ranges: (pack_ledger_ranges(ranges),), lambda values: unpack_ledger_ranges(_one(values[0]))
    ),
    SUBSCRIPTIONS.name: PartCodec(
        ("preferences", "state"),
        lambda data: (
            None if data.preferences is None else pack_preferences(data.preferences),
            None if data.state is None else pack_state(data.state),
        ),
        lambda values: unpack_subscription(values[0], values[1]),
    ),
    BY_SUBSCRIBER.name: PartCodec((), lambda _: (), lambda _: None),
}
