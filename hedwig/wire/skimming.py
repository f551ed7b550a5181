"""Skimming: checks whether a large frame has too many fields for protobuf to turn into objects.

An empty field is two bytes. As an element of a repeated field it becomes an object, which takes a hundred bytes and
microseconds. So a frame within the limit on bytes could block its receiver for seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from google.protobuf.descriptor import Descriptor

from hedwig.errors import RemoteProtocolError
from hedwig.wire import pubsub_pb2 as pb

__all__ = ["FIELDS_MAX", "TooManyFields", "skim"]

FIELDS_MAX: Final = 4096
"""The most fields of one request, including nested ones. Each property, option or position counts as one."""
_FIELD_BYTES_MIN: Final = 2
_VARINT_BYTES_MAX: Final = 10
_CONTINUED: Final = 0x80
"""A byte of at least this value is not the last byte of its number."""
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _GROUP, _GROUP_END, _FIXED_32 = range(6)

_Parts: TypeAlias = Mapping[int, "_Parts"]
"""The fields that are messages, by their number, with those inside of each."""


def _parts_of(message: Descriptor) -> _Parts:
    """Return the messages inside of a message, except repeated ones. Their elements count, but not their content."""
    return {
        field.number: _parts_of(field.message_type)
        for field in message.fields
        if field.message_type is not None and not field.is_repeated
    }


_NO_PARTS: Final[_Parts] = {}
_REQUEST: Final = _parts_of(cast(Descriptor, pb.PubSubRequest.DESCRIPTOR))
_TXN_ID: Final = pb.PubSubRequest.TXNID_FIELD_NUMBER
_TOPIC: Final = pb.PubSubRequest.TOPIC_FIELD_NUMBER


@dataclass(frozen=True, slots=True)
class TooManyFields:
    """A request with too many fields, by its first fields. Without a `txn_id` among them no hub can answer it."""

    topic: bytes
    txn_id: int | None


def skim(body: bytes) -> TooManyFields | None:
    """Return None if a request has few enough fields to be decoded. A small request always has.

    Nothing is read behind the last allowed field, so the cost is bounded.

    Raises: RemoteProtocolError - the bytes are no fields.
    """
    if len(body) <= _FIELD_BYTES_MIN * FIELDS_MAX:
        return None
    try:
        return _skim(body)
    except (IndexError, ValueError) as exc:
        raise RemoteProtocolError(f"a frame of {len(body)} bytes is no request: it is no sequence of fields") from exc


def _skim(body: bytes) -> TooManyFields | None:
    left, loose = FIELDS_MAX, len(body)
    topic, txn_id = b"", None
    # The request itself is read first, so its own fields are known before the nested ones are counted.
    spans = [(0, len(body), _REQUEST)]
    for at, end, parts in spans:
        is_request, groups = parts is _REQUEST, 0
        while at < end:
            if not left:
                return TooManyFields(topic, txn_id)
            left -= 1
            tag = body[at]
            at += 1
            if tag >= _CONTINUED:
                tag, at = _varint(body, at - 1)
            kind, number = tag & 7, tag >> 3
            if kind == _LENGTH_DELIMITED:
                length = body[at]
                at += 1
                if length >= _CONTINUED:
                    length, at = _varint(body, at - 1)
                start = at
                at += length
                if number in parts and not groups:
                    spans.append((start, at, parts[number]))
                    continue
                loose -= length
                if loose <= _FIELD_BYTES_MIN * FIELDS_MAX:
                    return None  # The remaining bytes are too few for more fields.
                if is_request and number == _TOPIC:
                    topic = body[start:at]
            elif kind == _VARINT:
                value, at = _varint(body, at)
                if is_request and number == _TXN_ID:
                    txn_id = value
            elif kind == _FIXED_64:
                at += 8
            elif kind == _FIXED_32:
                at += 4
            elif kind == _GROUP:
                groups += 1
            elif kind == _GROUP_END and groups:
                groups -= 1
            else:
                raise ValueError("there is no such kind of field here")
        if at > end or groups:
            raise ValueError("a field ends behind what holds it")
    return None


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number that begins at `at`, and where it ends."""
    number = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < _CONTINUED:
            return number, at
    raise ValueError("a number does not end")
