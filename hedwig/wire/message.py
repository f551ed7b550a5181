"""A message, as it is published, kept in a ledger, and delivered."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from google.protobuf.message import DecodeError

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.model import MessageSeqId, RegionSeqId
from hedwig.wire import pubsub_pb2 as pb
from hedwig.wire.values import named_values, seq_id_from, seq_id_to, text_from, varint

__all__ = ["STORED_BY_NOBODY", "Message", "Origin", "Received", "check_bytes", "stored_at", "stored_of"]

_FIXED_64: Final = 1
_LENGTH_DELIMITED: Final = 2
_REGION_TAG: Final = bytes([pb.Message.SRCREGION_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_SEQ_ID_TAG: Final = bytes([pb.Message.MSGID_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_LOCAL_TAG: Final = bytes([pb.MessageSeqId.LOCALCOMPONENT_FIELD_NUMBER << 3])
_LOCAL_BEGIN: Final = tuple(_SEQ_ID_TAG + varint(length + 1) + _LOCAL_TAG for length in range(11))
"""The bytes before the number of a position, by the length of that number."""
_STORED_TAG: Final = varint(pb.Message.STORED_FIELD_NUMBER << 3 | _LENGTH_DELIMITED)
_PUBLISHER_TAG: Final = bytes([pb.Stored.PUBLISHER_FIELD_NUMBER << 3 | _LENGTH_DELIMITED])
_SEQUENCE_TAG: Final = bytes([pb.Stored.SEQUENCE_FIELD_NUMBER << 3 | _FIXED_64])
_AT_TAG: Final = bytes([pb.Stored.AT_FIELD_NUMBER << 3 | _FIXED_64])
_FIXED_FIELD_BYTES: Final = 9


@dataclass(frozen=True, slots=True)
class Origin:
    """Who published a message, and the number that its publisher gave it in the topic."""

    publisher: bytes
    sequence: int


def stored_of(publisher: bytes) -> bytes:
    """Return how `Stored` begins for a message of a publisher. 8 bytes of its sequence follow, then `stored_at`."""
    named = b"".join((_PUBLISHER_TAG, varint(len(publisher)), publisher, _SEQUENCE_TAG))
    return b"".join((_STORED_TAG, varint(len(named) + 8 + _FIXED_FIELD_BYTES), named))


def stored_at(at_ms: int) -> bytes:
    """Return the end of `Stored` for a message that is stored at this time, in milliseconds since 1970."""
    return _AT_TAG + at_ms.to_bytes(8, "little")


STORED_BY_NOBODY: Final = _STORED_TAG + varint(_FIXED_FIELD_BYTES)
"""How `Stored` begins for a message without a publisher. `stored_at` follows."""


@lru_cache(maxsize=16)
def _region_field(region: bytes) -> bytes:
    """Return the field that names the region. The cache holds it, since a hub has only one region."""
    return _REGION_TAG + varint(len(region)) + region


def check_bytes(what: str, value: object) -> None:
    """Raise InvalidArgumentError unless the value is bytes. Not all programs have their types checked."""
    if not isinstance(value, bytes):
        hint = "; encode the text, as in text.encode()" if isinstance(value, str) else ""
        raise InvalidArgumentError(f"{what} is bytes, not {type(value).__name__}{hint}")


class Message:
    """An immutable message. Fields that we do not know stay in its bytes.

    `body` belongs to the application. `properties` are named values that filters read. The hub that accepts the message
    fills in `source_region` and `seq_id`.
    """

    __slots__ = ("_message",)

    def __init__(
        self, body: bytes, *, properties: Mapping[str, bytes] | None = None, message_type: str | None = None
    ) -> None:
        """Make a message. Raises InvalidArgumentError if the body or a property is not bytes."""
        check_bytes("the body of a message", body)
        self._message = pb.Message(body=body)
        for key, value in (properties or {}).items():
            check_bytes(f"the property {key!r} of a message", value)
            self._message.header.properties.entries.add(key=key, value=value)
        if message_type is not None:
            self._message.header.messageType = message_type

    @classmethod
    def wrap(cls, message: pb.Message) -> Self:
        """Return the message that a frame holds. For this package; `message` must not change afterwards."""
        made = cls.__new__(cls)
        made._message = message
        return made

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a stored message. Raises RemoteProtocolError if the bytes are no message."""
        try:
            message = pb.Message.FromString(data)
        except DecodeError as exc:
            raise RemoteProtocolError(f"{len(data)} bytes are no message: {exc}") from exc
        if not message.HasField("body"):
            raise RemoteProtocolError(f"a message of {len(data)} bytes has no body")
        return cls.wrap(message)

    def encode(self) -> bytes:
        """Return the bytes that a ledger keeps and a delivery carries."""
        return self._message.SerializeToString()

    def accepted(self, seq_id: MessageSeqId, region: bytes, stored: bytes = b"") -> "Message":
        """Return this message as a hub of `region` keeps it, at the position that the hub assigned.

        `stored` is what the hub says of the publish: a whole `Stored`, or nothing.
        """
        message = pb.Message()
        message.CopyFrom(self._message)
        message.srcRegion = region
        message.msgId.CopyFrom(seq_id_to(seq_id))
        message.ClearField("stored")
        if stored:
            message.MergeFromString(stored)
        return Message.wrap(message)

    def stored_bytes(self, local: int, region: bytes, stored: bytes = b"") -> bytes:
        """Return the bytes of `accepted` at the position `local`, which has no remote components.

        A message from an application has none of what the hub adds. Then that is appended to its bytes, at a third of
        the cost of building it anew. The order of fields has no meaning in protobuf.
        """
        message = self._message
        if message.HasField("msgId") or message.HasField("srcRegion") or message.HasField("stored"):
            return self.accepted(MessageSeqId(local), region, stored).encode()
        number = varint(local)
        return b"".join((message.SerializeToString(), _region_field(region), _LOCAL_BEGIN[len(number)], number, stored))

    def is_copy_of(self, other: "Message") -> bool:
        """Say whether an application would take this message for `other`: what hubs add does not count."""
        return self._plain() == other._plain()

    def _plain(self) -> bytes:
        message = pb.Message()
        message.CopyFrom(self._message)
        for added in ("srcRegion", "msgId", "stored"):
            message.ClearField(added)
        return message.SerializeToString()

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def properties(self) -> dict[str, bytes]:
        """Return the named values. Raises InvalidArgumentError if a name is no Unicode text."""
        return named_values(self._message.header.properties)

    @property
    def message_type(self) -> str | None:
        """Return the application's name for this kind of message. Raises InvalidArgumentError if it is no text."""
        header = self._message.header
        return text_from("the type of a message", header.messageType) if header.HasField("messageType") else None

    @property
    def source_region(self) -> bytes | None:
        return self._message.srcRegion if self._message.HasField("srcRegion") else None

    @property
    def seq_id(self) -> MessageSeqId | None:
        return seq_id_from(self._message.msgId) if self._message.HasField("msgId") else None

    @property
    def origin(self) -> Origin | None:
        """Return who published this message, as its hub has stored it; None if its publisher numbers no messages."""
        stored = self._message.stored
        return Origin(stored.publisher, stored.sequence) if stored.HasField("publisher") else None

    @property
    def stored_ms(self) -> int | None:
        """Return when a hub stored this message, in milliseconds since 1970; None before, and by older hubs."""
        return self._message.stored.at if self._message.stored.HasField("at") else None

    @property
    def remote(self) -> tuple[RegionSeqId, ...]:
        """Return the positions of the streams of other regions, as the message states them."""
        return seq_id_from(self._message.msgId).remote if self._message.HasField("msgId") else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._message == other._message

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return f"Message({self.body[:32]!r}{'…' if len(self.body) > 32 else ''}, seq_id={self.seq_id})"


class Received(Message):
    """A message as a hub delivers it, with its position in the topic. `local` is that of `seq_id`."""

    __slots__ = ("local",)

    local: int

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return `message`, which must have a position, as a Received."""
        made = cls.wrap(message._message)
        made.local = message._message.msgId.localComponent
        return made

    @classmethod
    def read(cls, stored: bytes) -> Self | None:
        """Return a message from its bytes; None if they are none, or have no position. For this package."""
        try:
            message = pb.Message.FromString(stored)
        except DecodeError:
            return None
        if not (message.HasField("msgId") and message.IsInitialized()):
            return None
        made = cls.__new__(cls)
        made._message = message
        made.local = message.msgId.localComponent
        return made

    @property
    def seq_id(self) -> MessageSeqId:
        return seq_id_from(self._message.msgId)
