"""Frames that are encoded before the load begins, so that sending one costs only a join.

The codec of the protocol makes them. The sender appends the number of the request, always with the same length.
The appended number overrides the one that the codec wrote.
"""

import struct
from typing import Final

from hedwig.benchmarks.load.workloads import Workload, subscriber_name, topic_name
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.wire import (
    Action,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Message,
    Publish,
    Request,
    Subscribe,
    Unsubscribe,
    encode_request,
)

__all__ = [
    "DELIVERY_PREFIX",
    "LENGTH",
    "MARK",
    "NUMBER",
    "PREFIX_BYTES",
    "SLOT_BASE",
    "SUCCESS_PREFIX",
    "PublishFrames",
    "close_frame",
    "consume_frame",
    "slot_bytes",
    "slot_of",
    "subscribe_frame",
    "unsubscribe_frame",
]

LENGTH: Final = struct.Struct(">I")
NUMBER: Final = struct.Struct("<Q")
"""The number of an operation, in the body of its message."""

SUCCESS_PREFIX: Final = b"\x08\x01\x10\x00\x18"
"""Version 1, status SUCCESS, and the tag of the request's number: how answers without error begin."""
DELIVERY_PREFIX: Final = b"\x08\x01\x10\x00\x18\x00\x2a"
"""The same with the number 0, and the tag of a message: how deliveries begin."""
PREFIX_BYTES: Final = len(SUCCESS_PREFIX)
MARK: Final = b"hedwigB!"
"""Stands before the number of an operation in a body, so that receivers find it."""

_NUMBER_TAG: Final = b"\x20"
SLOT_BASE: Final = 1 << 14
_SLOT_BYTES: Final = 3
_SLOTS_MAX: Final = (1 << 21) - SLOT_BASE


def slot_bytes(slot: int) -> bytes:
    """Return the number of the request in a slot, as three bytes. Raises ValueError beyond two million slots."""
    if not 0 <= slot < _SLOTS_MAX:
        raise ValueError(f"at most {_SLOTS_MAX} requests can be in flight on a connection")
    number = slot + SLOT_BASE
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))


def slot_of(data: bytes, start: int) -> int:
    """Return the slot whose bytes stand at `start`; a negative number if they are not those of a slot."""
    first, second = data[start], data[start + 1]
    if not (first & 0x80 and second & 0x80):
        return -1
    return (first & 0x7F | (second & 0x7F) << 7 | data[start + 2] << 14) - SLOT_BASE


class PublishFrames:
    """Frames that publish to the topics of a workload, each in two parts around the number of the operation."""

    def __init__(self, workload: Workload) -> None:
        blank = b"\0" * NUMBER.size
        rest = workload.message_bytes - len(MARK) - NUMBER.size
        self._body = MARK + blank + _filling(rest)
        self._parts: dict[int, tuple[bytes, bytes]] = {}
        self._prefix = workload.prefix

    def parts(self, topic: int) -> tuple[bytes, bytes]:
        """Return the parts of a frame before and after the number of the operation; append the slot's bytes."""
        parts = self._parts.get(topic)
        if parts is None:
            name = Topic(topic_name(self._prefix, topic))
            frame = _open_frame(name, Publish(Message(self._body)))
            number_at = frame.index(MARK) + len(MARK)
            parts = frame[:number_at], frame[number_at + NUMBER.size :]
            self._parts[topic] = parts
        return parts


def subscribe_frame(topic: bytes, subscriber: int, *, mode: CreateOrAttach = CreateOrAttach.CREATE) -> bytes:
    """Return the frame that opens a subscription, without the slot's bytes."""
    return _open_frame(Topic(topic), Subscribe(subscriber=SubscriberId(subscriber_name(subscriber)), mode=mode))


def close_frame(topic: bytes, subscriber: int) -> bytes:
    """Return the frame that closes a subscription, without the slot's bytes."""
    return _open_frame(Topic(topic), CloseSubscription(SubscriberId(subscriber_name(subscriber))))


def unsubscribe_frame(topic: bytes, subscriber: bytes) -> bytes:
    """Return the frame that ends a subscription, without the slot's bytes."""
    return _open_frame(Topic(topic), Unsubscribe(SubscriberId(subscriber)))


def consume_frame(topic: Topic, subscriber: SubscriberId, seq_id: MessageSeqId) -> bytes:
    """Return the whole frame that moves a consume pointer."""
    body = encode_request(Request(topic=topic, txn_id=0, action=Consume(subscriber=subscriber, seq_id=seq_id)))
    return LENGTH.pack(len(body)) + body


def _open_frame(topic: Topic, action: Action) -> bytes:
    body = encode_request(Request(topic=topic, txn_id=0, action=action)) + _NUMBER_TAG
    return LENGTH.pack(len(body) + _SLOT_BYTES) + body


def _filling(size: int) -> bytes:
    """Return bytes that contain no mark and do not repeat soon."""
    return bytes((index * 167 + (index >> 8) * 59) & 0x7F for index in range(size)).replace(MARK[:1], b"\0")
