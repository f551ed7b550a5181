"""A request with more fields than allowed is refused before objects are made of them, whatever the fields are."""

from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedwig.errors import RemoteProtocolError
from hedwig.model import Topic
from hedwig.wire import Consume, Malformed, Message, Publish, Request, Subscribe, decode_request, encode_request
from hedwig.wire import pubsub_pb2 as pb
from hedwig.wire.skimming import FIELDS_MAX

MANY: Final = 200_000
PUBLISH, SUBSCRIBE, CONSUME = 52, 53, 54


def begin(operation: int) -> bytes:
    """Return the first fields of a request about T: its txnId is 1."""
    return bytes((8, 1, 16, operation, 32, 1, 40, 0)) + field(6, b"T")


def field(number: int, payload: bytes) -> bytes:
    """Return a field with a length."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*encoded, number))


def publish(*parts: bytes) -> bytes:
    return begin(pb.PUBLISH) + field(PUBLISH, field(2, field(1, b"m") + b"".join(parts)))


def subscribe(*parts: bytes) -> bytes:
    return begin(pb.SUBSCRIBE) + field(SUBSCRIBE, field(2, b"s") + b"".join(parts))


def consume(seq_id: bytes) -> bytes:
    return begin(pb.CONSUME) + field(CONSUME, field(2, b"s") + field(3, seq_id))


MAP: Final = field(1, b"") * MANY
POSITIONS: Final = field(2, field(1, b"") + b"\x10\x00") * MANY
UNKNOWN: Final = field(99, b"") * MANY
GROUPS: Final = b"\x63\x64" * MANY
CROWDED: Final[Mapping[str, bytes]] = {
    "properties": publish(field(4, field(1, MAP))),
    "options": subscribe(field(6, field(1, MAP))),
    "tried hubs": publish() + field(3, b"") * MANY,
    "positions of a publish": publish(field(3, POSITIONS)),
    "positions of a consume": consume(POSITIONS),
    "unknown fields": publish() + UNKNOWN,
    "unknown fields of a message": publish(UNKNOWN),
    "unknown numbers": subscribe(field(6, b"\x60\x00" * MANY)),
    "unknown groups": subscribe(GROUPS),
    "properties of two messages": publish(field(4, field(1, MAP[: len(MAP) // 2]))) * 2,
    "empty messages": publish() + field(PUBLISH, b"") * MANY,
    "properties behind a group": publish(b"\x63\x64" + field(4, field(1, MAP))),
    "properties by a tag that is longer than it need be": publish(b"\xa2\x80\x80\x00" + field(4, field(1, MAP))[1:]),
}


@pytest.mark.parametrize("body", [pytest.param(body, id=kind) for kind, body in CROWDED.items()])
def test_a_request_with_too_many_fields_is_malformed(body: bytes) -> None:
    reason = f"a request has more than {FIELDS_MAX} fields"
    assert decode_request(body) == Request(topic=Topic(b"T"), txn_id=1, action=Malformed(reason))


def test_a_request_that_cannot_be_answered_ends_the_connection() -> None:
    crowded = field(3, b"") * MANY + publish()
    with pytest.raises(RemoteProtocolError, match="txnId"):
        decode_request(crowded)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(b"\xff" * 20, id="a number without end"),
        pytest.param(b"\x0a\x7f", id="a field without its end"),
        pytest.param(b"\x65\x00", id="half a number"),
        pytest.param(b"\x64", id="the end of no group"),
        pytest.param(b"\x63", id="a group without end"),
        pytest.param(b"\x66", id="a kind that there is not"),
        pytest.param(field(PUBLISH, b"\x0a\x01"), id="a field that ends behind what holds it"),
    ],
)
def test_a_large_frame_that_is_no_sequence_of_fields_ends_the_connection(end: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(publish(field(99, b"\0" * 10_000)) + end)
    with pytest.raises(RemoteProtocolError):
        decode_request(publish() + b"\x60\x00" * 4_050 + end)


def test_what_is_in_an_element_does_not_count() -> None:
    """protobuf keeps unknown fields as bytes."""
    options = field(1, field(1, b"key") + UNKNOWN) + field(1, field(1, b"other") + field(2, bytes(300_000)))
    action = decode_request(subscribe(field(6, field(1, options)))).action
    assert isinstance(action, Subscribe)
    assert action.preferences.options == {"key": b"", "other": bytes(300_000)}


def test_large_requests_of_people_are_decoded() -> None:
    properties = {f"key {number}": bytes(200) for number in range(4_000)}
    for message in (
        Message(bytes(1 << 20)),
        Message(b"m", properties=properties),
        Message(bytes(20_000), properties={}),
    ):
        request = Request(topic=Topic(b"T" * 5_000), txn_id=1 << 60, action=Publish(message))
        assert decode_request(encode_request(request)) == request


@st.composite
def crowds(draw: st.DrawFn) -> tuple[int, pb.PubSubRequest]:
    """Return a large request, and the number of its fields as the limit counts them."""
    request = pb.PubSubRequest(protocolVersion=pb.VERSION_ONE, type=pb.CONSUME, txnId=draw(st.integers(0, 2**64 - 1)))
    request.topic = b"T" * draw(st.sampled_from([1, 9_000]))
    request.triedServers.extend([b"hub"] * draw(st.integers(0, 3)))
    request.consumeRequest.subscriberId = b"s"
    seq_id = request.consumeRequest.msgId
    seq_id.localComponent = 1
    missing = FIELDS_MAX - (len(request.triedServers) + 8) + draw(st.integers(-3, 3))
    length = draw(st.integers(0, 3))
    for _ in range(missing):
        seq_id.remoteComponents.add(region=b"r" * length, seqId=1)
    return 8 + len(request.triedServers) + missing, request


@settings(max_examples=40, deadline=None)
@given(crowds())
def test_the_limit_is_met_to_the_field(crowd: tuple[int, pb.PubSubRequest]) -> None:
    fields, request = crowd
    decoded = decode_request(request.SerializeToString())
    assert decoded.txn_id == request.txnId
    assert isinstance(decoded.action, Malformed if fields > FIELDS_MAX else Consume)


def test_a_consume_may_come_to_a_topic_of_any_name() -> None:
    """The topic stands before the excess fields, and may have any bytes."""
    name = bytes(range(256)) * 30
    body = begin(pb.CONSUME)[:-3] + field(6, name) + field(3, b"") * MANY
    assert decode_request(body).topic == name
