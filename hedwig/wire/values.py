"""Conversion between our model and protobuf, for the values that messages and stored records share.

Fields that we do not know survive: reading keeps their bytes in `UnknownFields`, and writing restores them.
"""

from typing import Final

from google.protobuf.message import Message as ProtobufMessage

from hedwig.errors import InvalidArgumentError
from hedwig.model import MessageSeqId, RegionSeqId, SubscriptionPreferences, UnknownFields
from hedwig.wire import pubsub_pb2 as pb

__all__ = [
    "PROTOBUF",
    "named_values",
    "preferences_from",
    "preferences_to",
    "restore_unknown",
    "seq_id_from",
    "seq_id_to",
    "text_from",
    "unknown_of",
    "varint",
]

PROTOBUF: Final = "protobuf"
"""The name of this encoding in `UnknownFields`."""

_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))


def seq_id_from(message: pb.MessageSeqId) -> MessageSeqId:
    remote = tuple(RegionSeqId(item.region, item.seqId) for item in message.remoteComponents)
    return MessageSeqId(message.localComponent, remote)


def seq_id_to(seq_id: MessageSeqId) -> pb.MessageSeqId:
    remote = [pb.RegionSpecificSeqId(region=item.region, seqId=item.seq_id) for item in seq_id.remote]
    return pb.MessageSeqId(localComponent=seq_id.local, remoteComponents=remote)


def named_values(entries: pb.Map) -> dict[str, bytes]:
    """Return the entries of a map. If a key is repeated, its first entry counts.

    Raises: InvalidArgumentError - a key is no Unicode text.
    """
    values: dict[str, bytes] = {}
    for entry in entries.entries:
        values.setdefault(text_from("a name", entry.key), entry.value)
    return values


def text_from(what: str, text: str | bytes) -> str:
    """Return a text that a message holds.

    protobuf does not check the texts of its second version on reading, and returns invalid ones as bytes.

    Raises: InvalidArgumentError - it is no Unicode text.
    """
    if isinstance(text, bytes):
        raise InvalidArgumentError(f"{what} must be Unicode text, not {text!r}")
    return text


def preferences_from(message: pb.SubscriptionPreferences) -> SubscriptionPreferences:
    """Return preferences as they were sent or stored. Raises InvalidArgumentError if a text in them is no Unicode."""
    message_filter = message.messageFilter if message.HasField("messageFilter") else None
    return SubscriptionPreferences(
        options=named_values(message.options),
        message_bound=message.messageBound if message.HasField("messageBound") else None,
        message_filter=None if message_filter is None else text_from("the name of a message filter", message_filter),
        message_window_size=message.messageWindowSize if message.HasField("messageWindowSize") else None,
        unknown=unknown_of(message),
    )


def preferences_to(preferences: SubscriptionPreferences) -> pb.SubscriptionPreferences:
    message = pb.SubscriptionPreferences(
        messageBound=preferences.message_bound,
        messageFilter=preferences.message_filter,
        messageWindowSize=preferences.message_window_size,
    )
    for key, value in preferences.options.items():
        message.options.entries.add(key=key, value=value)
    restore_unknown(message, preferences.unknown)
    return message


def unknown_of(message: ProtobufMessage) -> UnknownFields | None:
    """Return the fields of `message` that we do not know."""
    rest = type(message)()
    rest.CopyFrom(message)
    for descriptor, _ in rest.ListFields():
        rest.ClearField(descriptor.name)
    payload = rest.SerializePartialToString()
    return UnknownFields(PROTOBUF, payload) if payload else None


def restore_unknown(message: ProtobufMessage, unknown: UnknownFields | None) -> None:
    """Add the fields that this code does not know to `message` again."""
    if unknown is not None and unknown.encoding == PROTOBUF:
        message.MergeFromString(unknown.payload)


def varint(number: int) -> bytes:
    """Return a protobuf number: seven bits per byte, the lowest first."""
    if number < 0x80:
        return _SHORT[number]
    if number < 0x4000:  # The usual lengths need no loop.
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x20_0000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
