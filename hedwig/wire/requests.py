"""The requests of a client to a hub, as values and as bytes."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import pubsub_pb2 as pb
from hedwig.wire.message import Message
from hedwig.wire.skimming import FIELDS_MAX, skim
from hedwig.wire.values import preferences_from, preferences_to, seq_id_from, seq_id_to, text_from, varint

__all__ = [
    "PING_TOPIC",
    "Action",
    "Attempt",
    "Authenticate",
    "CloseSubscription",
    "Consume",
    "CreateOrAttach",
    "Malformed",
    "Ping",
    "Publish",
    "Request",
    "Subscribe",
    "Unsubscribe",
    "decode_request",
    "encode_first_publish",
    "encode_request",
    "publish_head",
]


_MECHANISM_CHARACTERS_MAX: Final = 20
"""As SASL has it (RFC 4422)."""
_EXCHANGE_BYTES_MAX: Final = 16 * 1024
"""The bound on what a client says of itself in one step."""
_PUBLISHER_BYTES_MAX: Final = 64
"""The hub keeps the name of a publisher with each of its messages."""

PING_TOPIC: Final = Topic(b"-")
"""The topic that a Ping names, since each request must name one."""


class CreateOrAttach(enum.IntEnum):
    """What a SUBSCRIBE requires of the subscription: that it is new, that it exists, or either."""

    CREATE = 0
    ATTACH = 1
    CREATE_OR_ATTACH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an attempt to publish says of the message, unless it is the first, and the connection names its publisher.

    `publisher` is its publisher, None for that of the connection. `sequence` is its number in the topic, None for the
    txn_id. `age_ms` says how long ago it may have been sent for the first time, 0 for never. Its publisher repeats no
    message up to `answered`, if that is given.
    """

    publisher: bytes | None = None
    sequence: int | None = None
    age_ms: int = 0
    answered: int = 0


@dataclass(slots=True)
class Publish:
    """Publish a message, once if the connection or the attempt names its publisher.

    `previous` is the message of the publisher before this one that has no answer yet, 0 for none.
    """

    # It is not frozen, since that triples its cost, and hubs and clients make one for each message.

    message: Message
    previous: int = 0
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """Create or attach to a subscription, and begin delivery on this channel.

    With `standby` it waits while another channel has the subscription. The client sends something on this channel every
    `silence_ms`; 0: it does not promise to.
    """

    subscriber: SubscriberId
    mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH
    preferences: SubscriptionPreferences = field(default_factory=SubscriptionPreferences)
    synchronous: bool = False
    force_attach: bool = False
    standby: bool = False
    silence_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """Move the consume pointer to `seq_id`. Hubs do not answer it."""

    subscriber: SubscriberId
    seq_id: MessageSeqId


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Delete a subscription."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class CloseSubscription:
    """End delivery on this channel; the subscription stays."""

    subscriber: SubscriberId


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask whether the hub is there, and what it promises. It is about no topic: use `PING_TOPIC`.

    It travels as START_DELIVERY, which hubs of the original answer with MALFORMED_REQUEST. So they are there too.
    `publisher` names the publisher of the messages on this connection whose attempts name none.
    """

    publisher: bytes | None = None


@dataclass(frozen=True, slots=True)
class Authenticate:
    """One step of the exchange by which a client says who it is. It is about no topic: use `PING_TOPIC`.

    Without a `mechanism` it asks which there are. It travels as a Ping does. Hubs of the original refuse it, and
    learn no secret: no first step of a mechanism has one.
    """

    mechanism: str = ""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A request that a hub answers with MALFORMED_REQUEST, without ending the connection. `reason` names the fault."""

    reason: str


Action: TypeAlias = Publish | Subscribe | Consume | Unsubscribe | CloseSubscription | Ping | Authenticate | Malformed


@dataclass(slots=True, kw_only=True)
class Request:
    """One request about one topic. Nobody changes it; it is not frozen for the same reason as Publish.

    The client chooses `txn_id`, and the answer repeats it. `should_claim` is set after a redirect, so that the hub
    takes an unowned topic at once. `tried` has the addresses of the hubs that redirected the request.
    """

    topic: Topic
    txn_id: int
    action: Action
    should_claim: bool = False
    tried: tuple[bytes, ...] = ()


def decode_request(body: bytes) -> Request:
    """Return the request that a frame holds. Its action is Malformed if it is wrong, but the hub can answer it.

    Raises: RemoteProtocolError - not a request: bytes that cannot be parsed, a required field missing, a type or
        version that does not exist. The hub must close the connection, since the sender does not speak our protocol.
    """
    if (refused := skim(body)) is not None:
        reason = f"a request has more than {FIELDS_MAX} fields"
        if refused.txn_id is None:
            raise RemoteProtocolError(f"{reason}, and its txnId is not among the first of them")
        return Request(topic=Topic(refused.topic), txn_id=refused.txn_id, action=Malformed(reason))
    try:
        request = pb.PubSubRequest.FromString(body)
    except DecodeError as exc:
        raise RemoteProtocolError(f"a frame of {len(body)} bytes is no request: {exc}") from exc
    if not request.IsInitialized():
        # protobuf moves an unknown enum value to the unknown fields, so such a request is refused here too.
        raise RemoteProtocolError(
            f"a request of {len(body)} bytes lacks a required field, or has no known value in one"
        )
    return Request(
        topic=Topic(request.topic),
        txn_id=request.txnId,
        action=_decode_action(request),
        should_claim=request.shouldClaim,
        tried=tuple(request.triedServers) if request.triedServers else (),
    )


def _decode_action(request: pb.PubSubRequest) -> Action:
    decoder = _DECODERS.get(request.type)
    try:
        if decoder is not None:
            part, decode = decoder
            if not request.HasField(part):
                return Malformed(f"{pb.OperationType.Name(request.type)} without its {part}")
            return decode(request)
        if request.type == pb.START_DELIVERY and request.topic == PING_TOPIC:
            if request.HasField("authenticate"):
                return _decode_authenticate(request.authenticate)
            return Ping(_name_of(request.publisher) if request.HasField("publisher") else None)
        return Malformed(f"{pb.OperationType.Name(request.type)} is not a request to a hub")
    except InvalidArgumentError as exc:
        return Malformed(str(exc))


def _decode_authenticate(step: pb.Authenticate) -> Authenticate:
    if len(step.mechanism) > _MECHANISM_CHARACTERS_MAX or len(step.data) > _EXCHANGE_BYTES_MAX:
        raise InvalidArgumentError(f"a step of an exchange has at most {_EXCHANGE_BYTES_MAX} bytes")
    return Authenticate(text_from("the name of a mechanism", step.mechanism), step.data)


def _decode_publish(request: pb.PubSubRequest) -> Publish:
    publish = request.publishRequest
    message = Message.wrap(publish.msg)
    if not publish.HasField("attempt"):
        return Publish(message, publish.previous)
    attempt = publish.attempt
    return Publish(
        message,
        publish.previous,
        Attempt(
            publisher=_name_of(attempt.publisher) if attempt.HasField("publisher") else None,
            sequence=attempt.sequence if attempt.HasField("sequence") else None,
            age_ms=attempt.age,
            answered=attempt.answered,
        ),
    )


def _name_of(publisher: bytes) -> bytes:
    if not 0 < len(publisher) <= _PUBLISHER_BYTES_MAX:
        raise InvalidArgumentError(f"the name of a publisher has from 1 to {_PUBLISHER_BYTES_MAX} bytes")
    return publisher


def _decode_subscribe(request: pb.PubSubRequest) -> Subscribe:
    subscribe = request.subscribeRequest
    preferences = preferences_from(subscribe.preferences)
    if subscribe.HasField("messageBound"):
        preferences = replace(preferences, message_bound=subscribe.messageBound)
    return Subscribe(
        subscriber=SubscriberId(subscribe.subscriberId),
        mode=CreateOrAttach(subscribe.createOrAttach),
        preferences=preferences,
        synchronous=subscribe.synchronous,
        force_attach=subscribe.forceAttach,
        standby=subscribe.standby,
        silence_ms=subscribe.silence,
    )


def _decode_consume(request: pb.PubSubRequest) -> Consume:
    consume = request.consumeRequest
    return Consume(subscriber=SubscriberId(consume.subscriberId), seq_id=seq_id_from(consume.msgId))


_DECODERS: Final[Mapping[int, tuple[str, Callable[[pb.PubSubRequest], Action]]]] = {
    pb.PUBLISH: ("publishRequest", _decode_publish),
    pb.SUBSCRIBE: ("subscribeRequest", _decode_subscribe),
    pb.CONSUME: ("consumeRequest", _decode_consume),
    pb.UNSUBSCRIBE: (
        "unsubscribeRequest",
        lambda request: Unsubscribe(SubscriberId(request.unsubscribeRequest.subscriberId)),
    ),
    pb.CLOSESUBSCRIPTION: (
        "closeSubscriptionRequest",
        lambda request: CloseSubscription(SubscriberId(request.closeSubscriptionRequest.subscriberId)),
    ),
}


def encode_request(request: Request) -> bytes:
    """Return the body of the frame that carries `request`. Raises InvalidArgumentError for a Malformed action."""
    if isinstance(request.action, Publish):
        return _encode_publish(request, request.action)
    message = pb.PubSubRequest(
        protocolVersion=pb.VERSION_ONE, topic=request.topic, txnId=request.txn_id, triedServers=request.tried
    )
    match request.action:
        case Subscribe() as action:
            message.type = pb.SUBSCRIBE
            message.subscribeRequest.CopyFrom(_encode_subscribe(action))
        case Consume() as action:
            message.type = pb.CONSUME
            message.consumeRequest.subscriberId = action.subscriber
            message.consumeRequest.msgId.CopyFrom(seq_id_to(action.seq_id))
        case Unsubscribe(subscriber):
            message.type = pb.UNSUBSCRIBE
            message.unsubscribeRequest.subscriberId = subscriber
        case CloseSubscription(subscriber):
            message.type = pb.CLOSESUBSCRIPTION
            message.closeSubscriptionRequest.subscriberId = subscriber
        case Ping(publisher):
            message.type = pb.START_DELIVERY
            if publisher is not None:
                message.publisher = publisher
        case Authenticate(mechanism, data):
            message.type = pb.START_DELIVERY
            message.authenticate.mechanism, message.authenticate.data = mechanism, data
        case Malformed(reason):
            raise InvalidArgumentError(f"a malformed request cannot be sent: {reason}")
    if message.type != pb.CONSUME:
        message.shouldClaim = request.should_claim  # Like the original client, in all requests but CONSUME.
    return message.SerializeToString()


def publish_head(topic: Topic) -> bytes:
    """Return the part of a body that `encode_first_publish` needs, the same for all messages of a topic."""
    return b"".join((_CLAIMS_NOT, varint(len(topic)), topic, _PUBLISH_TAG))


def encode_first_publish(
    head: bytes, txn_id: int, message: Message | bytes, previous: int = 0, answered: int = 0
) -> bytes:
    """Return the body of a PUBLISH that is sent for the first time, and that no hub has redirected yet.

    Args: head - see `publish_head`; message - the message, or its body; previous - as in Publish; answered - as in
        Attempt.
    """
    encoded = _BODY_TAG + varint(len(message)) + message if isinstance(message, bytes) else message.encode()
    size = varint(len(encoded))
    follows = _PREVIOUS_TAG + varint(previous) if previous else b""
    if answered:
        number = varint(answered)
        follows += b"".join((_ATTEMPT_TAG, varint(len(_ANSWERED_TAG) + len(number)), _ANSWERED_TAG, number))
    published = varint(len(_MESSAGE_TAG) + len(size) + len(encoded) + len(follows))
    return b"".join((_FIRST_BEGIN, varint(txn_id), head, published, _MESSAGE_TAG, size, encoded, follows))


def _encode_publish(request: Request, publish: Publish) -> bytes:
    """Return the body of a PUBLISH, written by hand at a third of the cost, because clients send so many."""
    message, topic = publish.message.encode(), request.topic
    parts = [_MESSAGE_TAG, varint(len(message)), message]
    if publish.previous:
        parts += (_PREVIOUS_TAG, varint(publish.previous))
    if publish.attempt is not None:
        attempt = _encode_attempt(publish.attempt).SerializeToString()
        parts += (_ATTEMPT_TAG, varint(len(attempt)), attempt)
    published = b"".join(parts)
    tried = [part for hub in request.tried for part in (_TRIED_TAG, varint(len(hub)), hub)] if request.tried else ()
    return b"".join(
        (
            _PUBLISH_BEGIN,
            *tried,
            _TXN_ID_TAG,
            varint(request.txn_id),
            _CLAIMS if request.should_claim else _CLAIMS_NOT,
            varint(len(topic)),
            topic,
            _PUBLISH_TAG,
            varint(len(published)),
            published,
        )
    )


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


_VARINT, _LENGTH_DELIMITED = 0, 2
_PUBLISH_BEGIN: Final = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.PUBLISH).SerializePartialToString()
_TRIED_TAG: Final = _tag(pb.PubSubRequest.TRIEDSERVERS_FIELD_NUMBER, _LENGTH_DELIMITED)
_TXN_ID_TAG: Final = _tag(pb.PubSubRequest.TXNID_FIELD_NUMBER, _VARINT)
_FIRST_BEGIN: Final = _PUBLISH_BEGIN + _TXN_ID_TAG
_CLAIM_TAG: Final = _tag(pb.PubSubRequest.SHOULDCLAIM_FIELD_NUMBER, _VARINT)
_TOPIC_TAG: Final = _tag(pb.PubSubRequest.TOPIC_FIELD_NUMBER, _LENGTH_DELIMITED)
_CLAIMS, _CLAIMS_NOT = _CLAIM_TAG + varint(1) + _TOPIC_TAG, _CLAIM_TAG + varint(0) + _TOPIC_TAG
"""`shouldClaim`, and the tag of the topic behind it."""
_PUBLISH_TAG: Final = _tag(pb.PubSubRequest.PUBLISHREQUEST_FIELD_NUMBER, _LENGTH_DELIMITED)
_MESSAGE_TAG: Final = _tag(pb.PublishRequest.MSG_FIELD_NUMBER, _LENGTH_DELIMITED)
_BODY_TAG: Final = _tag(pb.Message.BODY_FIELD_NUMBER, _LENGTH_DELIMITED)
_ATTEMPT_TAG: Final = _tag(pb.PublishRequest.ATTEMPT_FIELD_NUMBER, _LENGTH_DELIMITED)
_ANSWERED_TAG: Final = _tag(pb.Attempt.ANSWERED_FIELD_NUMBER, _VARINT)
_PREVIOUS_TAG: Final = _tag(pb.PublishRequest.PREVIOUS_FIELD_NUMBER, _VARINT)


def _encode_attempt(attempt: Attempt) -> pb.Attempt:
    return pb.Attempt(
        publisher=attempt.publisher,
        sequence=attempt.sequence,
        answered=attempt.answered or None,
        age=attempt.age_ms or None,
    )


def _encode_subscribe(action: Subscribe) -> pb.SubscribeRequest:
    return pb.SubscribeRequest(
        subscriberId=action.subscriber,
        createOrAttach=pb.SubscribeRequest.CreateOrAttach.Name(action.mode),
        synchronous=action.synchronous,
        preferences=preferences_to(action.preferences),
        forceAttach=action.force_attach,
        standby=action.standby or None,
        silence=action.silence_ms or None,
    )
