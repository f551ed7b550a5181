"""Records as the original stores them: protobuf, binary or in text format, with a stamp that it leaves unread.

The stamp (WriteStamp, field 1000) is stored behind the record's own fields. Protobuf reads two encodings in sequence as
one message, so a stamp can be added without touching the record. Owner records are text, in which the original refuses
a field that it does not know. They carry no stamp, and name their writer by address and epoch.

Bytes of fields that this code does not know travel in `UnknownFields`, and the next write puts them back. Their
encoding is "protobuf", or "hub-info-text" for whole lines of an owner record.
"""

from collections.abc import Callable
from typing import Final, Generic, Literal, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from hedwig.errors import InvalidArgumentError
from hedwig.model import (
    LedgerRange,
    LedgerRanges,
    SubscriptionData,
    SubscriptionState,
)
from hedwig.wire import pubsub_pb2 as pb
from hedwig.wire.values import (
    preferences_from,
    preferences_to,
    restore_unknown,
    seq_id_from,
    seq_id_to,
    unknown_of,
)

__all__ = ["LEDGER_RANGES", "SUBSCRIPTION", "Codec", "UndecodableError"]

R = TypeVar("R")
M = TypeVar("M", bound="_Stamped")
P = TypeVar("P", bound=Message)


class UndecodableError(Exception):
    """Stored bytes that are not a record of the kind; the text says why."""


class Codec(Protocol[R]):
    """One kind's records as bytes."""

    def encode(self, record: R) -> bytes:
        """Return the bytes of a whole record, unstamped."""
        ...

    def merge(self, stored: bytes, record: R) -> bytes:
        """Return the unstamped bytes of `stored`, with each part that is present in `record` replaced by that.

        Raises: UndecodableError - `stored` is not a record.
        """
        ...

    def decode(self, data: bytes) -> R:
        """Return the record. Raises UndecodableError."""
        ...

    def fleeting(self, record: R) -> R:
        """Return the record, marked as stored in an ephemeral node if its kind has such a mark."""
        ...

    def stamp(self, body: bytes, token: bytes, previous: bytes) -> bytes:
        """Return unstamped `body` with the stamp of the write `token`, which follows the write `previous`."""
        ...

    def token(self, data: bytes) -> bytes:
        """Return the token of the write that made `data`; empty if it carries none."""
        ...

    def previous(self, data: bytes) -> bytes:
        """Return the token of the write before the one that made `data`; empty if none is known."""
        ...


class _Stamped(Protocol):
    """A message of ours with a stamp."""

    @property
    def writeStamp(self) -> pb.WriteStamp: ...

    def ClearField(self, field_name: Literal["writeStamp"]) -> None: ...

    def SerializeToString(self) -> bytes: ...


class _BinaryCodec(Generic[R, M]):
    """A record that is one binary message with a stamp."""

    def __init__(
        self,
        parse: Callable[[bytes], M],
        to_message: Callable[[R], M],
        to_record: Callable[[M], R],
        overlay: Callable[[M, R], M],
    ) -> None:
        self._parse = parse
        self._to_message = to_message
        self._to_record = to_record
        self._overlay = overlay

    def encode(self, record: R) -> bytes:
        return self._to_message(record).SerializeToString()

    def merge(self, stored: bytes, record: R) -> bytes:
        message = self._parse(stored)
        message.ClearField("writeStamp")
        return self._overlay(message, record).SerializeToString()

    def decode(self, data: bytes) -> R:
        return self._to_record(self._parse(data))

    def fleeting(self, record: R) -> R:
        return record

    def stamp(self, body: bytes, token: bytes, previous: bytes) -> bytes:
        stamp = pb.WriteStamp(token=token)
        if previous:
            stamp.previousToken = previous
        return body + pb.LedgerRanges(writeStamp=stamp).SerializeToString()

    def token(self, data: bytes) -> bytes:
        return self._stamp_of(data).token

    def previous(self, data: bytes) -> bytes:
        return self._stamp_of(data).previousToken

    def _stamp_of(self, data: bytes) -> pb.WriteStamp:
        try:
            return self._parse(data).writeStamp
        except UndecodableError:
            return pb.WriteStamp()


# -------------------------------------------------------------------------------------------------------- ledger ranges


def _parse_ranges(data: bytes) -> pb.LedgerRanges:
    return _parse(pb.LedgerRanges(), data)


def _ranges_message(record: LedgerRanges) -> pb.LedgerRanges:
    message = pb.LedgerRanges(ranges=[_range_message(item) for item in record.ranges])
    restore_unknown(message, record.unknown)
    return message


def _range_message(item: LedgerRange) -> pb.LedgerRange:
    message = pb.LedgerRange(ledgerId=item.ledger_id)
    if item.end is not None:
        message.endSeqIdIncluded.CopyFrom(seq_id_to(item.end))
    if item.start is not None:
        message.startSeqIdIncluded = item.start
    restore_unknown(message, item.unknown)
    return message


def _ranges_record(message: pb.LedgerRanges) -> LedgerRanges:
    return LedgerRanges(tuple(_range_record(item) for item in message.ranges), unknown=unknown_of(message))


def _range_record(item: pb.LedgerRange) -> LedgerRange:
    return LedgerRange(
        ledger_id=item.ledgerId,
        start=item.startSeqIdIncluded if item.HasField("startSeqIdIncluded") else None,
        end=seq_id_from(item.endSeqIdIncluded) if item.HasField("endSeqIdIncluded") else None,
        unknown=unknown_of(item),
    )


def _overlay_ranges(message: pb.LedgerRanges, record: LedgerRanges) -> pb.LedgerRanges:
    """Return `record`, which has one part only, with the fields of `message` that the record's writer never saw."""
    merged = _ranges_message(record)
    if record.unknown is None:
        restore_unknown(merged, unknown_of(message))
    return merged


# --------------------------------------------------------------------------------------------------------- subscription


def _parse_any_subscription(data: bytes) -> pb.SubscriptionData:
    """Read a SubscriptionData, or the bare SubscriptionState of releases 4.0 and 4.1, which does not parse as one."""
    try:
        return _parse(pb.SubscriptionData(), data)
    except UndecodableError as not_data:
        try:
            return pb.SubscriptionData(state=_parse(pb.SubscriptionState(), data))
        except UndecodableError:
            raise not_data from None


def _parse_subscription(data: bytes) -> pb.SubscriptionData:
    message = _parse_any_subscription(data)
    if message.state.HasField("messageBound"):
        # Releases before the preferences kept it in the state.
        if not message.preferences.HasField("messageBound"):
            message.preferences.messageBound = message.state.messageBound
        message.state.ClearField("messageBound")
    return message


def _subscription_message(record: SubscriptionData) -> pb.SubscriptionData:
    return _overlay_subscription(pb.SubscriptionData(), record)


def _overlay_subscription(message: pb.SubscriptionData, record: SubscriptionData) -> pb.SubscriptionData:
    if record.state is not None:
        state = pb.SubscriptionState(msgId=seq_id_to(record.state.consumed))
        restore_unknown(state, record.state.unknown or unknown_of(message.state))
        message.state.CopyFrom(state)
    if record.preferences is not None:
        preferences = preferences_to(record.preferences)
        if record.preferences.unknown is None:
            restore_unknown(preferences, unknown_of(message.preferences))
        message.preferences.CopyFrom(preferences)
    if record.unknown is not None:
        _forget_unknown(message)
        restore_unknown(message, record.unknown)
    return message


def _subscription_record(message: pb.SubscriptionData) -> SubscriptionData:
    try:
        return SubscriptionData(
            preferences=preferences_from(message.preferences) if message.HasField("preferences") else None,
            state=_state_record(message.state) if message.HasField("state") else None,
            unknown=unknown_of(message),
        )
    except InvalidArgumentError as exc:
        raise UndecodableError(f"it is no SubscriptionData: {exc}") from exc


def _state_record(message: pb.SubscriptionState) -> SubscriptionState:
    return SubscriptionState(seq_id_from(message.msgId), unknown=unknown_of(message))


# ---------------------------------------------------------------------------------------------------------------- parts


def _parse(message: P, data: bytes) -> P:
    try:
        message.ParseFromString(data)
    except DecodeError as exc:
        raise UndecodableError(f"its {len(data)} bytes are no {message.DESCRIPTOR.name}: {exc}") from exc
    if not message.IsInitialized():
        raise UndecodableError(f"its {len(data)} bytes are no {message.DESCRIPTOR.name}: a required field is missing")
    return message


def _forget_unknown(message: pb.SubscriptionData) -> None:
    known = pb.SubscriptionData()
    if message.HasField("state"):
        known.state.CopyFrom(message.state)
    if message.HasField("preferences"):
        known.preferences.CopyFrom(message.preferences)
    message.CopyFrom(known)


LEDGER_RANGES: Final[Codec[LedgerRanges]] = _BinaryCodec(
    _parse_ranges, _ranges_message, _ranges_record, _overlay_ranges
)
SUBSCRIPTION: Final[Codec[SubscriptionData]] = _BinaryCodec(
    _parse_subscription, _subscription_message, _subscription_record, _overlay_subscription
)
