"""Requests and responses become the captured bytes of the original, and come back as the same values."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import InvalidArgumentError, RemoteProtocolError
from hedwig.model import MessageSeqId, RegionSeqId, SubscriberId, SubscriptionPreferences, Topic, UnknownFields
from hedwig.status import StatusCode
from hedwig.wire import (
    PING_TOPIC,
    STORED_BY_NOBODY,
    Answer,
    Attempt,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Delivery,
    DeliveryEncoder,
    Event,
    EventKind,
    Malformed,
    Message,
    Origin,
    Ping,
    Publish,
    Received,
    Request,
    Response,
    Subscribe,
    Unsubscribe,
    decode_request,
    decode_response,
    encode_first_publish,
    encode_published,
    encode_request,
    encode_response,
    publish_head,
    read_published,
    split_delivery,
    stored_at,
    stored_of,
)

T, S = Topic(b"T"), SubscriberId(b"s")

# Frames of the original client and hub, without their lengths.
REQUESTS = {
    "0801100020012800320154a2030612040a026d30": Request(topic=T, txn_id=1, action=Publish(Message(b"m0"))),
    "0801100120022800320154aa030b1201731802200132003800": Request(
        topic=T, txn_id=2, action=Subscribe(subscriber=S, synchronous=True)
    ),
    "08011002200a320154b203071201731a020806": Request(
        topic=T, txn_id=10, action=Consume(subscriber=S, seq_id=MessageSeqId(6))
    ),
    "08011006200b28003202544dd20303120173": Request(topic=Topic(b"TM"), txn_id=11, action=CloseSubscription(S)),
    "08011003200c2800320154ba0303120173": Request(topic=T, txn_id=12, action=Unsubscribe(S)),
}
RESPONSES: dict[str, Response] = {
    "08011000180142060a040a020801": Answer(txn_id=1, published=MessageSeqId(1)),
    "080110001802420412021200": Answer(txn_id=2, preferences=SubscriptionPreferences()),
    "08011000180c": Answer(txn_id=12),
    "0801109403180e2200": Answer(txn_id=14, status=StatusCode.CLIENT_NOT_SUBSCRIBED, text=""),
    "0801100018003201463a017342041a020802": Event(
        topic=Topic(b"F"), subscriber=S, kind=EventKind.SUBSCRIPTION_FORCED_CLOSED
    ),
    "0801100018002a140a026d31120a7374616e64616c6f6e651a0208023201543a0173": Delivery(
        topic=T, subscriber=S, message=Message(b"m1").accepted(MessageSeqId(2), b"standalone")
    ),
}


@pytest.mark.parametrize(("raw", "request_"), REQUESTS.items())
def test_requests_are_the_captured_bytes(raw: str, request_: Request) -> None:
    body = bytes.fromhex(raw)
    assert encode_request(request_) == body
    assert decode_request(body) == request_


@pytest.mark.parametrize(("raw", "response"), RESPONSES.items())
def test_responses_are_the_captured_bytes(raw: str, response: Response) -> None:
    body = bytes.fromhex(raw)
    assert encode_response(response) == body
    assert decode_response(body) == response


UINT64 = st.integers(0, 2**64 - 1)
UINT32 = st.integers(0, 2**32 - 1)
SEQ_IDS = st.builds(
    MessageSeqId, UINT64, st.lists(st.builds(RegionSeqId, st.binary(max_size=5), UINT64), max_size=3).map(tuple)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PREFERENCES = st.builds(
    SubscriptionPreferences,
    options=st.dictionaries(TEXTS, st.binary(max_size=8), max_size=3),
    message_bound=st.none() | UINT32,
    message_filter=st.none() | TEXTS,
    message_window_size=st.none() | UINT32,
)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=300),
    properties=st.dictionaries(TEXTS, st.binary(max_size=8), max_size=3),
    message_type=st.none() | TEXTS,
)
SUBSCRIBERS = st.binary(max_size=9).map(SubscriberId)
ACTIONS = st.one_of(
    st.builds(Publish, MESSAGES),
    st.builds(
        Subscribe,
        subscriber=SUBSCRIBERS,
        mode=st.sampled_from(CreateOrAttach),
        preferences=PREFERENCES,
        synchronous=st.booleans(),
        force_attach=st.booleans(),
        standby=st.booleans(),
        silence_ms=UINT32,
    ),
    st.builds(Consume, subscriber=SUBSCRIBERS, seq_id=SEQ_IDS),
    st.builds(Unsubscribe, SUBSCRIBERS),
    st.builds(CloseSubscription, SUBSCRIBERS),
)
NAMES_OF_PUBLISHERS = st.binary(min_size=1, max_size=64)
ATTEMPTS = st.builds(
    Attempt,
    publisher=st.none() | NAMES_OF_PUBLISHERS,
    sequence=st.none() | UINT64,
    age_ms=UINT64,
    answered=UINT64,
)
STORED = st.just(b"") | st.builds(lambda at_ms: STORED_BY_NOBODY + stored_at(at_ms), UINT64)


@given(
    st.builds(
        Request,
        topic=st.binary(max_size=9).map(Topic),
        txn_id=UINT64,
        action=ACTIONS,
        should_claim=st.booleans(),
        tried=st.lists(st.binary(max_size=9), max_size=2).map(tuple),
    )
)
def test_requests_round_trip(request_: Request) -> None:
    back = decode_request(encode_request(request_))
    if isinstance(request_.action, Consume):
        request_ = replace(request_, should_claim=False)  # It does not travel with a CONSUME.
    assert back == request_


@given(
    st.one_of(
        st.builds(
            Answer,
            txn_id=UINT64,
            status=st.sampled_from(StatusCode),
            text=st.none() | TEXTS,
            published=st.none() | SEQ_IDS,
            preferences=st.none() | PREFERENCES,
            place=st.none() | UINT32,
        ),
        st.builds(Event, topic=st.binary().map(Topic), subscriber=SUBSCRIBERS, kind=st.sampled_from(EventKind)),
        st.builds(Delivery, topic=st.binary().map(Topic), subscriber=SUBSCRIBERS, message=MESSAGES),
    )
)
def test_responses_round_trip(response: Response) -> None:
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("0801100020012800320154", "PUBLISH without its publishRequest"),
        ("0801100120012800320154", "SUBSCRIBE without its subscribeRequest"),
        ("0801100420012800320154", "START_DELIVERY is not a request to a hub"),
        ("0801100520012800320154c20303120173", "STOP_DELIVERY is not a request to a hub"),
    ],
)
def test_what_a_hub_can_answer_is_malformed(raw: str, reason: str) -> None:
    request = decode_request(bytes.fromhex(raw))
    assert request == Request(topic=T, txn_id=1, action=Malformed(reason))
    with pytest.raises(InvalidArgumentError):
        encode_request(request)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("", id="an empty frame"),
        pytest.param("ffffff", id="not protobuf"),
        pytest.param("080110002001a2030612040a026d30", id="no topic"),
        pytest.param("0801106320012800320154", id="an unknown type"),
        pytest.param("0802100020012800320154", id="an unknown version"),
        pytest.param("0801100020012800320154a203021200", id="a message without body"),
        pytest.param("08011002200a320154b20303120173", id="a consume without id"),
    ],
)
def test_what_is_no_request_ends_the_connection(raw: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(bytes.fromhex(raw))


def test_an_unknown_value_in_an_optional_enum_reads_as_its_default() -> None:
    body = bytes.fromhex("0801100120022800320154aa03051201731809")
    assert decode_request(body).action == Subscribe(subscriber=S)


def test_the_old_place_of_the_message_bound_overrides_the_preferences() -> None:
    body = bytes.fromhex("0801100120022800320154aa0309120173" + "2807" + "32021005")
    action = decode_request(body).action
    assert isinstance(action, Subscribe)
    assert action.preferences.message_bound == 7


def test_unknown_fields_of_messages_and_preferences_are_kept() -> None:
    unknown = bytes.fromhex("827d0474657374")  # Field 2000, four bytes.
    message = Message.decode(b"\x0a\x01m" + unknown).accepted(MessageSeqId(3), b"here")
    assert unknown in message.encode()
    delivered = decode_response(encode_response(Delivery(topic=T, subscriber=S, message=message)))
    assert isinstance(delivered, Delivery)
    assert unknown in delivered.message.encode()
    preferences = SubscriptionPreferences(message_bound=1, unknown=UnknownFields("protobuf", unknown))
    body = encode_request(Request(topic=T, txn_id=1, action=Subscribe(subscriber=S, preferences=preferences)))
    action = decode_request(body).action
    assert isinstance(action, Subscribe)
    assert action.preferences.unknown == UnknownFields("protobuf", unknown)


def test_an_accepted_message_has_the_hubs_position_and_region_not_the_publishers() -> None:
    forged = Message(b"m").accepted(MessageSeqId(99, (RegionSeqId(b"far", 9),)), b"forged")
    accepted = forged.accepted(MessageSeqId(1), b"here")
    assert accepted.seq_id == MessageSeqId(1)
    assert accepted.source_region == b"here"
    assert forged.seq_id == MessageSeqId(99, (RegionSeqId(b"far", 9),))


@given(st.sampled_from([*REQUESTS, *RESPONSES]), st.data())
def test_mutated_frames_are_values_or_protocol_errors(raw: str, data: st.DataObject) -> None:
    body = bytearray(bytes.fromhex(raw))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        match data.draw(st.sampled_from(["set", "insert", "cut"])):
            case "set" if at < len(body):
                body[at] = data.draw(st.integers(0, 255))
            case "insert":
                body[at:at] = data.draw(st.binary(max_size=5))
            case "cut":
                del body[at:]
    for decode in (decode_request, decode_response):
        try:
            decode(bytes(body))
        except RemoteProtocolError:
            continue


@given(UINT64, UINT64)
def test_the_answer_to_a_publish_written_by_hand_is_the_generated_one(txn_id: int, local: int) -> None:
    assert encode_published(txn_id, local) == encode_response(Answer(txn_id=txn_id, published=MessageSeqId(local)))


@given(MESSAGES, UINT64, st.binary(min_size=1, max_size=300), st.booleans(), STORED)
def test_what_a_ledger_keeps_is_the_accepted_message(
    message: Message, local: int, region: bytes, was_accepted_before: bool, stored: bytes
) -> None:
    original = message
    if was_accepted_before:
        before = STORED_BY_NOBODY + stored_at(1)
        message = message.accepted(MessageSeqId(7, (RegionSeqId(b"r", 9),)), b"elsewhere", before)
    kept = Message.decode(message.stored_bytes(local, region, stored))
    assert kept == message.accepted(MessageSeqId(local), region, stored)
    assert kept.is_copy_of(original)
    assert not kept.is_copy_of(Message(original.body + b"x"))


@given(NAMES_OF_PUBLISHERS, UINT64, UINT64)
def test_a_stored_message_names_its_origin_and_its_time(publisher: bytes, sequence: int, at_ms: int) -> None:
    stored = stored_of(publisher) + sequence.to_bytes(8, "little") + stored_at(at_ms)
    message = Message.decode(Message(b"m").stored_bytes(1, b"here", stored))
    assert (message.origin, message.stored_ms) == (Origin(publisher, sequence), at_ms)
    message = Message.decode(Message(b"m").stored_bytes(1, b"here", STORED_BY_NOBODY + stored_at(at_ms)))
    assert (message.origin, message.stored_ms) == (None, at_ms)
    assert (Message(b"m").origin, Message(b"m").stored_ms) == (None, None)


@given(
    MESSAGES,
    st.binary(min_size=1, max_size=300),
    UINT64,
    st.booleans(),
    st.lists(st.binary(max_size=200), max_size=3),
    UINT64,
    st.none() | ATTEMPTS,
)
def test_every_publish_comes_back_as_it_was(
    message: Message,
    topic: bytes,
    txn_id: int,
    should_claim: bool,
    tried: list[bytes],
    previous: int,
    attempt: Attempt | None,
) -> None:
    """The encoder is written by hand, and protobuf decodes what it writes."""
    request = Request(
        topic=Topic(topic),
        txn_id=txn_id,
        action=Publish(message, previous, attempt),
        should_claim=should_claim,
        tried=tuple(tried),
    )
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("publisher", [None, b"p", b"p" * 64])
def test_a_ping_may_name_a_publisher(publisher: bytes | None) -> None:
    request = Request(topic=PING_TOPIC, txn_id=0, action=Ping(publisher))
    assert decode_request(encode_request(request)) == request


@pytest.mark.parametrize("name", [b"", b"p" * 65])
def test_the_name_of_a_publisher_has_a_bound(name: bytes) -> None:
    for action in (Ping(name), Publish(Message(b"m"), 0, Attempt(publisher=name, sequence=1))):
        decoded = decode_request(encode_request(Request(topic=PING_TOPIC, txn_id=0, action=action)))
        assert isinstance(decoded.action, Malformed)
        assert "from 1 to 64 bytes" in decoded.action.reason


@given(st.binary().map(Topic), SUBSCRIBERS, st.binary(max_size=300).map(Message), UINT64)
def test_a_delivery_is_split_as_it_was_encoded(
    topic: Topic, subscriber: SubscriberId, message: Message, local: int
) -> None:
    encoder = DeliveryEncoder(topic, subscriber)
    stored = message.stored_bytes(local, b"region")
    assert split_delivery(encoder.encode(stored)) == (stored, encoder.names)
    received = Received.read(stored)
    assert received is not None
    assert (received.local, received.seq_id, received.body) == (local, MessageSeqId(local), message.body)


def test_only_small_deliveries_are_split() -> None:
    encoder = DeliveryEncoder(T, S)
    for size in (0x3FFF - 10, 0x4000, 0x200000):
        stored = Message(b"x" * size).encode()
        parts = split_delivery(encoder.encode(stored))
        assert parts == ((stored, encoder.names) if len(stored) < 0x4000 else None)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_what_answers_a_publish_is_read_by_hand_too(txn_id: int, local: int) -> None:
    assert read_published(encode_published(txn_id, local)) == (txn_id, local)


@given(st.binary(max_size=20), UINT64, UINT64, st.integers(0, 30))
def test_no_other_body_is_read_by_hand(other: bytes, txn_id: int, local: int, cut: int) -> None:
    """What is read by hand is what protobuf reads, or it is not read."""
    body = encode_published(txn_id, local)
    for changed in (other, body[:cut] + other, body + other, body[:cut] + other + body[cut:]):
        read = read_published(changed)
        if read is not None:
            answer = decode_response(changed)
            assert isinstance(answer, Answer)
            assert (answer.txn_id, answer.published, answer.status) == (
                read[0],
                MessageSeqId(read[1]),
                StatusCode.SUCCESS,
            )
        split_delivery(changed)
        Received.read(changed)


@given(st.binary().map(Topic), UINT64, st.binary(max_size=300) | MESSAGES, UINT64, UINT64)
def test_a_first_publish_is_written_as_any_other(
    topic: Topic, txn_id: int, message: Message | bytes, previous: int, answered: int
) -> None:
    body = encode_first_publish(publish_head(topic), txn_id, message, previous, answered)
    whole = Message(message) if isinstance(message, bytes) else message
    publish = Publish(whole, previous, Attempt(answered=answered) if answered else None)
    assert body == encode_request(Request(topic=topic, txn_id=txn_id, action=publish))
