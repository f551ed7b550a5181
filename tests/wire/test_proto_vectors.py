"""Prove that our messages are the original's: captured frames encode to the same bytes, and no field number moved."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from hedwig.wire import pubsub_pb2 as pb


@dataclass(frozen=True, slots=True)
class Vector:
    """The body of a frame captured from the original hub or client, and the message that it encodes."""

    name: str
    captured: bytes
    expected: Callable[[], Message]


def _request(kind: "pb.OperationType", txn_id: int, topic: bytes, claim: bool | None = False) -> pb.PubSubRequest:
    request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=kind, txnId=txn_id, topic=topic)
    if claim is not None:
        request.shouldClaim = claim
    return request


def _answer(txn_id: int, status: "pb.StatusCode" = pb.SUCCESS) -> pb.PubSubResponse:
    return pb.PubSubResponse(protocolVersion=pb.VERSION_ONE, statusCode=status, txnId=txn_id)


def _publish() -> Message:
    request = _request(pb.PUBLISH, 1, b"T")
    request.publishRequest.msg.body = b"m0"
    return request


def _publish_answer() -> Message:
    answer = _answer(1)
    answer.responseBody.publishResponse.publishedMsgId.localComponent = 1
    return answer


def _subscribe() -> Message:
    request = _request(pb.SUBSCRIBE, 2, b"T")
    subscribe = request.subscribeRequest
    subscribe.subscriberId = b"s"
    subscribe.createOrAttach = pb.SubscribeRequest.CREATE_OR_ATTACH
    subscribe.synchronous = True
    subscribe.preferences.SetInParent()
    subscribe.forceAttach = False
    return request


def _subscribe_answer() -> Message:
    answer = _answer(2)
    answer.responseBody.subscribeResponse.preferences.SetInParent()
    return answer


def _push() -> Message:
    push = _answer(0)
    push.topic, push.subscriberId = b"T", b"s"
    push.message.body, push.message.srcRegion = b"m1", b"standalone"
    push.message.msgId.localComponent = 2
    return push


def _consume() -> Message:
    request = _request(pb.CONSUME, 10, b"T", claim=None)
    request.consumeRequest.subscriberId = b"s"
    request.consumeRequest.msgId.localComponent = 6
    return request


def _close_subscription() -> Message:
    request = _request(pb.CLOSESUBSCRIPTION, 11, b"TM")
    request.closeSubscriptionRequest.subscriberId = b"s"
    return request


def _unsubscribe() -> Message:
    request = _request(pb.UNSUBSCRIBE, 12, b"T")
    request.unsubscribeRequest.subscriberId = b"s"
    return request


def _plain_answer() -> Message:
    return _answer(12)


def _not_subscribed() -> Message:
    answer = _answer(14, pb.CLIENT_NOT_SUBSCRIBED)
    answer.statusMsg = ""
    return answer


def _forced_closed() -> Message:
    event = _answer(0)
    event.topic, event.subscriberId = b"F", b"s"
    event.responseBody.subscriptionEvent.event = pb.SUBSCRIPTION_FORCED_CLOSED
    return event


VECTORS = [
    Vector(name, bytes.fromhex(captured), expected)
    for name, captured, expected in [
        ("publish", "08 01 10 00 20 01 28 00 32 01 54 a2 03 06 12 04 0a 02 6d 30", _publish),
        ("publish answer", "08 01 10 00 18 01 42 06 0a 04 0a 02 08 01", _publish_answer),
        (
            "subscribe",
            "08 01 10 01 20 02 28 00 32 01 54 aa 03 0b 12 01 73 18 02 20 01 32 00 38 00",
            _subscribe,
        ),
        ("subscribe answer", "08 01 10 00 18 02 42 04 12 02 12 00", _subscribe_answer),
        (
            "push",
            "08 01 10 00 18 00 2a 14 0a 02 6d 31 12 0a 73 74 61 6e 64 61 6c 6f 6e 65 1a 02 08 02 32 01 54 3a 01 73",
            _push,
        ),
        ("consume", "08 01 10 02 20 0a 32 01 54 b2 03 07 12 01 73 1a 02 08 06", _consume),
        ("close subscription", "08 01 10 06 20 0b 28 00 32 02 54 4d d2 03 03 12 01 73", _close_subscription),
        ("unsubscribe", "08 01 10 03 20 0c 28 00 32 01 54 ba 03 03 12 01 73", _unsubscribe),
        ("plain answer", "08 01 10 00 18 0c", _plain_answer),
        ("not subscribed", "08 01 10 94 03 18 0e 22 00", _not_subscribed),
        ("forced closed", "08 01 10 00 18 00 32 01 46 3a 01 73 42 04 1a 02 08 02", _forced_closed),
    ]
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_captured_frame_says_what_the_original_meant(vector: Vector) -> None:
    expected = vector.expected()
    parsed = type(expected).FromString(vector.captured)
    assert parsed == expected


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_captured_frame_is_written_back_byte_for_byte(vector: Vector) -> None:
    expected = vector.expected()
    assert type(expected).FromString(vector.captured).SerializeToString() == vector.captured
    assert expected.SerializeToString() == vector.captured


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            pb.ManagerMeta(managerImpl="org.apache.hedwig.server.meta.ZkMetadataManagerFactory", managerVersion=1),
            'managerImpl: "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"\nmanagerVersion: 1\n',
        ),
        (pb.HubInfoData(hostname="10.0.0.1:4080:9876", czxid=30), 'hostname: "10.0.0.1:4080:9876"\nczxid: 30\n'),
        (pb.HubLoadData(numTopics=3), "numTopics: 3\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_text_record_is_as_the_original_stores_it(record: Message, text: str) -> None:
    assert text_format.MessageToString(record) == text
    assert text_format.Parse(text, type(record)()) == record


@pytest.mark.parametrize(
    ("record", "bare"),
    [
        (
            pb.SubscriptionData(state=pb.SubscriptionState(msgId=pb.MessageSeqId(localComponent=7))),
            bytes.fromhex("0a 04 0a 02 08 07"),
        ),
        (
            pb.LedgerRanges(ranges=[pb.LedgerRange(ledgerId=3, startSeqIdIncluded=1)]),
            bytes.fromhex("0a 04 08 03 18 01"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_write_stamp_only_adds_bytes_that_the_original_skips(
    record: pb.SubscriptionData | pb.LedgerRanges, bare: bytes
) -> None:
    assert record.SerializeToString() == bare
    record.writeStamp.token = b"new"
    record.writeStamp.previousToken = b"old"
    # Key (1000 << 3 | 2), length 10, then both tokens.
    assert record.SerializeToString() == bare + bytes.fromhex("c2 3e 0a") + b"\x0a\x03new\x12\x03old"


@dataclass(frozen=True, slots=True)
class Shape:
    """Label (q required, o optional, r repeated), name and number of each field of a message."""

    message: type[Message]
    fields: str


SHAPES = [
    Shape(
        pb.PubSubRequest,
        "q protocolVersion 1, q type 2, r triedServers 3, q txnId 4, o shouldClaim 5, q topic 6, o publishRequest 52, "
        "o subscribeRequest 53, o consumeRequest 54, o unsubscribeRequest 55, o stopDeliveryRequest 56, "
        "o startDeliveryRequest 57, o closeSubscriptionRequest 58, o authenticate 1000, o publisher 1001",
    ),
    Shape(pb.Authenticate, "o mechanism 1, o data 2"),
    Shape(pb.PublishRequest, "q msg 2, o attempt 1000, o previous 1001"),
    Shape(pb.Attempt, "o publisher 1, o sequence 2, o age 3, o answered 4"),
    Shape(
        pb.SubscribeRequest,
        "q subscriberId 2, o createOrAttach 3, o synchronous 4, o messageBound 5, o preferences 6, o forceAttach 7, "
        "o standby 1000, o silence 1001",
    ),
    Shape(pb.ConsumeRequest, "q subscriberId 2, q msgId 3"),
    Shape(pb.UnsubscribeRequest, "q subscriberId 2"),
    Shape(pb.CloseSubscriptionRequest, "q subscriberId 2"),
    Shape(pb.StopDeliveryRequest, "q subscriberId 2"),
    Shape(pb.StartDeliveryRequest, "q subscriberId 2"),
    Shape(
        pb.PubSubResponse,
        "q protocolVersion 1, q statusCode 2, q txnId 3, o statusMsg 4, o message 5, o topic 6, o subscriberId 7, "
        "o responseBody 8, o authentication 1000, o promises 1001, o place 1002, o refusal 1003, "
        "o retryAfter 1004",
    ),
    Shape(pb.Authentication, "r mechanisms 1, o data 2, o expiresIn 3"),
    Shape(pb.Promises, "o refusalsAreDefinite 1, o storesOnce 2"),
    Shape(pb.ResponseBody, "o publishResponse 1, o subscribeResponse 2, o subscriptionEvent 3"),
    Shape(pb.PublishResponse, "q publishedMsgId 1"),
    Shape(pb.SubscribeResponse, "o preferences 2"),
    Shape(pb.SubscriptionEventResponse, "o event 1"),
    Shape(pb.Message, "q body 1, o srcRegion 2, o msgId 3, o header 4, o stored 1000"),
    Shape(pb.Stored, "o publisher 1, o sequence 2, o at 3"),
    Shape(pb.MessageHeader, "o properties 1, o messageType 2"),
    Shape(pb.Map, "r entries 1"),
    Shape(pb.Map.Entry, "o key 1, o value 2"),
    Shape(pb.MessageSeqId, "o localComponent 1, r remoteComponents 2"),
    Shape(pb.RegionSpecificSeqId, "q region 1, q seqId 2"),
    Shape(pb.SubscriptionPreferences, "o options 1, o messageBound 2, o messageFilter 3, o messageWindowSize 4"),
    Shape(
        pb.SubscriptionOptions,
        "o forceAttach 1, o createOrAttach 2, o messageBound 3, o options 4, o messageFilter 5, o messageWindowSize 6, "
        "o enableResubscribe 7",
    ),
    Shape(pb.SubscriptionState, "q msgId 1, o messageBound 2"),
    Shape(pb.SubscriptionData, "o state 1, o preferences 2, o writeStamp 1000"),
    Shape(pb.LedgerRange, "q ledgerId 1, o endSeqIdIncluded 2, o startSeqIdIncluded 3"),
    Shape(pb.LedgerRanges, "r ranges 1, o writeStamp 1000"),
    Shape(pb.ManagerMeta, "q managerImpl 2, q managerVersion 3"),
    Shape(pb.HubInfoData, "q hostname 2, q czxid 3, o log 1000"),
    Shape(pb.HubLoadData, "q numTopics 2"),
    Shape(pb.WriteStamp, "o token 1, o previousToken 2"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.message.__name__)
def test_fields_keep_their_names_numbers_and_labels(shape: Shape) -> None:
    fields = [
        f"{'r' if field.is_repeated else 'q' if field.is_required else 'o'} {field.name} {field.number}"
        for field in shape.message.DESCRIPTOR.fields
    ]
    assert ", ".join(fields) == shape.fields


def test_every_message_is_held_to_its_shape() -> None:
    top_level = {message.full_name for message in pb.DESCRIPTOR.message_types_by_name.values()}
    assert top_level | {"Hedwig.Map.Entry"} == {shape.message.DESCRIPTOR.full_name for shape in SHAPES}


@pytest.mark.parametrize(
    ("enum", "numbers"),
    [
        (pb.ProtocolVersion.items(), {"VERSION_ONE": 1}),
        (
            pb.OperationType.items(),
            {
                "PUBLISH": 0,
                "SUBSCRIBE": 1,
                "CONSUME": 2,
                "UNSUBSCRIBE": 3,
                "START_DELIVERY": 4,
                "STOP_DELIVERY": 5,
                "CLOSESUBSCRIPTION": 6,
            },
        ),
        (pb.SubscribeRequest.CreateOrAttach.items(), {"CREATE": 0, "ATTACH": 1, "CREATE_OR_ATTACH": 2}),
        (pb.SubscriptionEvent.items(), {"TOPIC_MOVED": 1, "SUBSCRIPTION_FORCED_CLOSED": 2}),
        (pb.RefusalKind.items(), {"NOT_PERMITTED": 1, "NOT_AUTHENTICATED": 2, "QUOTA_EXCEEDED": 3, "HUB_LEAVES": 4}),
        (
            pb.StatusCode.items(),
            {
                "SUCCESS": 0,
                "MALFORMED_REQUEST": 401,
                "NO_SUCH_TOPIC": 402,
                "CLIENT_ALREADY_SUBSCRIBED": 403,
                "CLIENT_NOT_SUBSCRIBED": 404,
                "COULD_NOT_CONNECT": 405,
                "TOPIC_BUSY": 406,
                "RESUBSCRIBE_EXCEPTION": 407,
                "NOT_RESPONSIBLE_FOR_TOPIC": 501,
                "SERVICE_DOWN": 502,
                "UNCERTAIN_STATE": 503,
                "INVALID_MESSAGE_FILTER": 504,
                "BAD_VERSION": 520,
                "NO_TOPIC_PERSISTENCE_INFO": 521,
                "TOPIC_PERSISTENCE_INFO_EXISTS": 522,
                "NO_SUBSCRIPTION_STATE": 523,
                "SUBSCRIPTION_STATE_EXISTS": 524,
                "NO_TOPIC_OWNER_INFO": 525,
                "TOPIC_OWNER_INFO_EXISTS": 526,
                "UNEXPECTED_CONDITION": 600,
                "COMPOSITE": 700,
            },
        ),
    ],
    ids=["ProtocolVersion", "OperationType", "CreateOrAttach", "SubscriptionEvent", "RefusalKind", "StatusCode"],
)
def test_enum_values_keep_their_numbers(enum: list[tuple[str, int]], numbers: dict[str, int]) -> None:
    assert dict(enum) == numbers


def test_defaults_are_those_of_the_original() -> None:
    subscribe, options = pb.SubscribeRequest(), pb.SubscriptionOptions()
    assert subscribe.createOrAttach == options.createOrAttach == pb.SubscribeRequest.CREATE_OR_ATTACH
    assert (subscribe.synchronous, subscribe.forceAttach) == (False, False)
    assert (options.forceAttach, options.messageBound, options.enableResubscribe) == (False, 0, True)
