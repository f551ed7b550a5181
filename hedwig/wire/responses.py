"""The responses of a hub to a client: answers, deliveries and events, as values and as bytes."""

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import pubsub_pb2 as pb
from hedwig.wire.message import Message
from hedwig.wire.values import preferences_from, preferences_to, seq_id_from, seq_id_to, text_from, varint

__all__ = [
    "Answer",
    "Authentication",
    "Delivery",
    "DeliveryEncoder",
    "Event",
    "EventKind",
    "Promises",
    "RefusalKind",
    "Response",
    "decode_response",
    "encode_published",
    "encode_response",
    "read_published",
    "split_delivery",
]


class EventKind(enum.IntEnum):
    """What happened to a subscription that a client holds open."""

    TOPIC_MOVED = 1
    SUBSCRIPTION_FORCED_CLOSED = 2


class RefusalKind(enum.IntEnum):
    """Why a request was refused, if no status says so."""

    NOT_PERMITTED = 1
    NOT_AUTHENTICATED = 2
    QUOTA_EXCEEDED = 3
    HUB_LEAVES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What a hub promises to a client. Hubs of the original promise nothing.

    `refusals_are_definite`: a request that is refused has done nothing, unless the status is UNCERTAIN_STATE.
    `stores_once`: a message of a publisher is stored once, however often it is sent.
    """

    refusals_are_definite: bool = False
    stores_once: bool = False


@dataclass(frozen=True, slots=True)
class Authentication:
    """What a hub answers to one step of an exchange: the mechanisms that it knows, and its own step.

    `expires_ms` says for how many milliseconds the login counts; None for as long as the connection.
    """

    mechanisms: tuple[str, ...] = ()
    data: bytes = b""
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the request with the same `txn_id` on the same channel.

    `text` explains an error to people, but for NOT_RESPONSIBLE_FOR_TOPIC it is the owner's address, or empty.
    `published` is set in the answer to a PUBLISH. `preferences` is set in the answer to a SUBSCRIBE and has the
    effective ones. A hub sends them even if all are unset; else the original client assumes that it cannot filter.
    `promises` is set in the answer to a Ping, `authentication` in that to an Authenticate. `place` is set while a
    SUBSCRIBE waits: its place in the line, from 1 on. Another answer with the same `txn_id` follows. `refusal` says
    more than the status. `retry_after_ms` goes with QUOTA_EXCEEDED. HUB_LEAVES comes in one more answer to a Ping.
    """

    txn_id: int
    status: StatusCode = StatusCode.SUCCESS
    text: str | None = None
    published: MessageSeqId | None = None
    preferences: SubscriptionPreferences | None = None
    promises: Promises | None = None
    place: int | None = None
    refusal: RefusalKind | None = None
    retry_after_ms: int | None = None
    authentication: Authentication | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message on its way to a subscriber. Clients do not answer it."""

    topic: Topic
    subscriber: SubscriberId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change to a subscription that the hub reports. `text` may explain it to people."""

    topic: Topic
    subscriber: SubscriberId
    kind: EventKind
    text: str | None = None


Response: TypeAlias = Answer | Delivery | Event


def decode_response(body: bytes) -> Response:
    """Return the response that a frame holds. Raises RemoteProtocolError if a hub sends no such frame."""
    try:
        response = pb.PubSubResponse.FromString(body)
    except DecodeError as exc:
        raise RemoteProtocolError(f"a frame of {len(body)} bytes is no response: {exc}") from exc
    if not response.IsInitialized():
        raise RemoteProtocolError(
            f"a response of {len(body)} bytes lacks a required field, or has no known value in one"
        )
    topic, subscriber = Topic(response.topic), SubscriberId(response.subscriberId)
    # The original client checks in this order: first for a message, then for an event; all else is an answer.
    if response.HasField("message"):
        return Delivery(topic=topic, subscriber=subscriber, message=Message.wrap(response.message))
    kind: EventKind | None = None
    if response.responseBody.HasField("subscriptionEvent"):
        event = response.responseBody.subscriptionEvent.event  # An unknown number reads as the default, TOPIC_MOVED.
        kind = EventKind(event)
    try:
        if kind is not None:
            return Event(topic=topic, subscriber=subscriber, kind=kind, text=_text_of(response))
        return _decode_answer(response)
    except InvalidArgumentError as exc:
        raise RemoteProtocolError(f"a response of {len(body)} bytes is not understood: {exc}") from exc


def _decode_answer(response: pb.PubSubResponse) -> Answer:
    body = response.responseBody
    subscribed = body.subscribeResponse
    return Answer(
        txn_id=response.txnId,
        status=StatusCode(response.statusCode),
        text=_text_of(response),
        published=seq_id_from(body.publishResponse.publishedMsgId) if body.HasField("publishResponse") else None,
        preferences=preferences_from(subscribed.preferences) if subscribed.HasField("preferences") else None,
        promises=_decode_promises(response.promises) if response.HasField("promises") else None,
        place=response.place if response.HasField("place") else None,
        refusal=RefusalKind(response.refusal) if response.HasField("refusal") else None,
        retry_after_ms=response.retryAfter if response.HasField("retryAfter") else None,
        authentication=_decode_step(response.authentication) if response.HasField("authentication") else None,
    )


def _text_of(response: pb.PubSubResponse) -> str | None:
    return text_from("the text of a response", response.statusMsg) if response.HasField("statusMsg") else None


def _decode_step(step: pb.Authentication) -> Authentication:
    return Authentication(
        tuple(text_from("a mechanism", name) for name in step.mechanisms),
        step.data,
        step.expiresIn if step.HasField("expiresIn") else None,
    )


def _decode_promises(promises: pb.Promises) -> Promises:
    return Promises(refusals_are_definite=promises.refusalsAreDefinite, stores_once=promises.storesOnce)


def encode_response(response: Response) -> bytes:
    """Return the body of the frame that carries `response`."""
    match response:
        case Delivery():
            return DeliveryEncoder(response.topic, response.subscriber).encode(response.message.encode())
        case Event():
            message = _success(0)
            message.topic, message.subscriberId = response.topic, response.subscriber
            message.responseBody.subscriptionEvent.event = _EVENTS[response.kind]
            if response.text is not None:
                message.statusMsg = response.text
        case Answer():
            message = _encode_answer(response)
    return message.SerializeToString()


def _encode_answer(answer: Answer) -> pb.PubSubResponse:
    message = pb.PubSubResponse(protocolVersion=pb.VERSION_ONE, statusCode=_STATUS[answer.status], txnId=answer.txn_id)
    if answer.text is not None:
        message.statusMsg = answer.text
    if answer.published is not None:
        message.responseBody.publishResponse.publishedMsgId.CopyFrom(seq_id_to(answer.published))
    if answer.preferences is not None:
        message.responseBody.subscribeResponse.preferences.CopyFrom(preferences_to(answer.preferences))
        message.responseBody.subscribeResponse.preferences.SetInParent()
    if answer.promises is not None:
        message.promises.refusalsAreDefinite = answer.promises.refusals_are_definite
        message.promises.storesOnce = answer.promises.stores_once
    if answer.place is not None:
        message.place = answer.place
    if answer.refusal is not None:
        message.refusal = _REFUSALS[answer.refusal]
    if answer.retry_after_ms is not None:
        message.retryAfter = answer.retry_after_ms
    if answer.authentication is not None:
        message.authentication.mechanisms.extend(answer.authentication.mechanisms)
        message.authentication.data = answer.authentication.data
        if answer.authentication.expires_ms is not None:
            message.authentication.expiresIn = answer.authentication.expires_ms
    return message


def _success(txn_id: int) -> pb.PubSubResponse:
    return pb.PubSubResponse(protocolVersion=pb.VERSION_ONE, statusCode=pb.SUCCESS, txnId=txn_id)


def encode_published(txn_id: int, local: int) -> bytes:
    """Return the body that answers a PUBLISH, as `encode_response` would for Answer(txn_id, published=local).

    It is written by hand at a tenth of the cost, because a hub sends one for each message that it stores.
    """
    number = varint(local)
    length = len(number)
    return b"".join((_PUBLISHED_BEGIN, varint(txn_id), _PUBLISHED_BODY[length], number))


class DeliveryEncoder:
    """Builds the frames' bodies for one subscription from stored messages, without decoding those.

    All deliveries are equal but for the message itself, which they contain byte for byte as stored.
    """

    __slots__ = ("names",)

    def __init__(self, topic: Topic, subscriber: SubscriberId) -> None:
        names = pb.PubSubResponse(topic=topic, subscriberId=subscriber)
        self.names = names.SerializePartialToString()
        """What comes behind the message in each body."""

    def encode(self, message: bytes) -> bytes:
        """Return the body that delivers a message, given as `Message.encode` returns it."""
        return b"".join((_DELIVERY_BEGIN, varint(len(message)), message, self.names))


def split_delivery(body: bytes) -> tuple[bytes, bytes] | None:
    """Return the message in a body and what comes behind it, as DeliveryEncoder has put them there.

    None: the body has another form. It may be a delivery nevertheless, so decode it.
    """
    begin = len(_DELIVERY_BEGIN)
    if not body.startswith(_DELIVERY_BEGIN) or len(body) < begin + 4:
        return None
    size = body[begin]
    begin += 1
    if size > 0x7F:
        high = body[begin]
        begin += 1
        if high > 0x7F:  # It has more than 16 KiB.
            return None
        size = size & 0x7F | high << 7
    end = begin + size
    return body[begin:end], body[end:]


def read_published(body: bytes) -> tuple[int, int] | None:
    """Return the txn id and the position in a body that has the form of `encode_published`, else None."""
    if not body.startswith(_PUBLISHED_BEGIN):
        return None
    try:
        txn_id, at = _read_varint(body, len(_PUBLISHED_BEGIN))
        rest = _PUBLISHED_BODY[len(body) - at - _PUBLISHED_BODY_BYTES]
        if not body.startswith(rest, at):
            return None
        local, end = _read_varint(body, at + _PUBLISHED_BODY_BYTES)
    except IndexError:
        return None
    return (txn_id, local) if end == len(body) else None


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it. Raises IndexError if the body ends before."""
    byte = body[at]
    if byte < 0x80:
        return byte, at + 1
    number, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = body[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
        if shift > 56:
            raise IndexError("a number of over nine bytes, which nobody needs")


def _published_body(length: int) -> bytes:
    """Return the bytes between the txn id of a request and the position of its message, which has `length` bytes."""
    position = bytes((pb.MessageSeqId.LOCALCOMPONENT_FIELD_NUMBER << 3,))
    for field, size in (
        (pb.PublishResponse.PUBLISHEDMSGID_FIELD_NUMBER, 1),
        (pb.ResponseBody.PUBLISHRESPONSE_FIELD_NUMBER, 3),
        (pb.PubSubResponse.RESPONSEBODY_FIELD_NUMBER, 5),
    ):
        position = bytes((field << 3 | 2, length + size)) + position
    return position


_PUBLISHED_BEGIN: Final = _success(0).SerializeToString()[:-1]
_PUBLISHED_BODY: Final = tuple(_published_body(length) for length in range(11))
_PUBLISHED_BODY_BYTES: Final = len(_PUBLISHED_BODY[1])
_DELIVERY_BEGIN: Final = _success(0).SerializeToString() + bytes([pb.PubSubResponse.MESSAGE_FIELD_NUMBER << 3 | 2])
_STATUS: Final = {status: pb.StatusCode.Name(status) for status in StatusCode}
_EVENTS: Final = {
    EventKind.TOPIC_MOVED: pb.TOPIC_MOVED,
    EventKind.SUBSCRIPTION_FORCED_CLOSED: pb.SUBSCRIPTION_FORCED_CLOSED,
}
_REFUSALS: Final = {
    RefusalKind.NOT_PERMITTED: pb.NOT_PERMITTED,
    RefusalKind.NOT_AUTHENTICATED: pb.NOT_AUTHENTICATED,
    RefusalKind.QUOTA_EXCEEDED: pb.QUOTA_EXCEEDED,
    RefusalKind.HUB_LEAVES: pb.HUB_LEAVES,
}
