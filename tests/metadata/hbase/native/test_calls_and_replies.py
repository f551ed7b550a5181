"""Calls have the form that HBase reads. Replies are read in any order, however their bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import LocalProtocolError, RemoteProtocolError
from hedwig.metadata.hbase.native.hbase_pb2 import (
    CellBlockMeta,
    ConnectionHeader,
    ExceptionResponse,
    RequestHeader,
    ResponseHeader,
)
from hedwig.metadata.hbase.native.wire.codec import (
    CALL_BYTES_MAX,
    FATAL_CALL,
    Reply,
    ReplyDecoder,
    delimited,
    encode_call,
    header,
    preamble,
    varint,
)
from hedwig.metadata.hbase.native.wire.failures import ServerFailure

NUMBERS = st.integers(0, FATAL_CALL)
METHODS = st.sampled_from(["Get", "Multi", "getProcedureResult"])


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def reply(call: int, body: bytes, cells: bytes | None = None) -> bytes:
    meta = None if cells is None else CellBlockMeta(length=len(cells))
    header = ResponseHeader(call_id=call, cell_block_meta=meta).SerializeToString()
    return framed(varint(len(header)) + header + varint(len(body)) + body + (cells or b""))


def refusal(call: int, **fields: object) -> bytes:
    exception = ExceptionResponse(**fields)  # type: ignore[arg-type]
    header = ResponseHeader(call_id=call, exception=exception).SerializeToString()
    return framed(varint(len(header)) + header)


def test_a_connection_begins_with_the_preamble_and_a_header() -> None:
    data = preamble() + header("ClientService", "somebody")
    assert data[:6] == bytes.fromhex("48 42 61 73 00 50")
    assert int.from_bytes(data[6:10], "big") == len(data) - 10
    sent = ConnectionHeader.FromString(data[10:])
    assert sent.service_name == "ClientService"
    assert sent.user_info.effective_user == "somebody"
    assert (sent.version_info.version_major, sent.version_info.version_minor) == (2, 6)
    assert sent.version_info.HasField("src_checksum"), "HBase requires every field of it"
    assert not sent.HasField("cell_block_codec_class"), "with one, messages have no cells"
    in_blocks = ConnectionHeader.FromString(header("ClientService", "somebody", in_blocks=True)[4:])
    assert in_blocks.cell_block_codec_class == "org.apache.hadoop.hbase.codec.KeyValueCodec"
    after_login = ConnectionHeader.FromString(header("ClientService", None)[4:])
    assert not after_login.HasField("user_info"), "else HBase takes it for somebody who acts for another"


@given(NUMBERS, METHODS, st.binary(max_size=300), st.integers(20, 2**31))
def test_a_call_is_a_header_and_a_message(call: int, method: str, request: bytes, timeout_ms: int) -> None:
    data = encode_call(call, method, request, timeout_ms)
    expected = RequestHeader(call_id=call, method_name=method, request_param=True, timeout=timeout_ms)
    header = expected.SerializeToString()
    assert data == framed(varint(len(header)) + header + varint(len(request)) + request)


def test_a_call_over_the_limit_is_not_made() -> None:
    fits = CALL_BYTES_MAX - 100
    assert len(encode_call(1, "Multi", bytes(fits), 1000)) > fits
    with pytest.raises(LocalProtocolError, match="was not sent"):
        encode_call(1, "Multi", bytes(CALL_BYTES_MAX), 1000)


@given(st.integers(0, 2**64 - 1))
def test_numbers_take_seven_bits_a_byte(number: int) -> None:
    data = varint(number)
    assert sum((byte & 127) << (7 * at) for at, byte in enumerate(data)) == number
    assert all(byte > 127 for byte in data[:-1])
    assert data[-1] < 128


@given(
    st.lists(
        st.tuples(
            NUMBERS.filter(lambda one: one != FATAL_CALL), st.binary(max_size=40), st.none() | st.binary(max_size=40)
        ),
        max_size=5,
    )
)
def test_replies_are_the_same_cut_at_every_byte(replies: list[tuple[int, bytes, bytes | None]]) -> None:
    data = b"".join(reply(*one) for one in replies)
    expected = [(call, Reply(body, cells) if cells else body) for call, body, cells in replies]
    assert ReplyDecoder().receive(data) == expected
    for cut in range(len(data) + 1):
        decoder = ReplyDecoder()
        assert [*decoder.receive(data[:cut]), *decoder.receive(data[cut:])] == expected
    decoder = ReplyDecoder()
    assert [one for byte in data for one in decoder.receive(bytes([byte]))] == expected


def test_an_exception_comes_in_the_place_of_the_message() -> None:
    data = refusal(
        7,
        exception_class_name="org.apache.hadoop.hbase.exceptions.RegionMovedException",
        stack_trace="org.apache.hadoop.hbase.exceptions.RegionMovedException: moved\n\tat somewhere",
        hostname="elsewhere",
        port=16020,
    )
    (call, failure), (behind, _) = ReplyDecoder().receive(data + reply(8, b""))
    assert (call, behind) == (7, 8)
    assert isinstance(failure, ServerFailure)
    assert failure.java_class == "RegionMovedException"
    assert failure.address == ("elsewhere", 16020)
    assert str(failure) == "moved"


def test_the_end_of_a_connection_is_told_by_a_number_that_no_call_has() -> None:
    data = refusal(FATAL_CALL, exception_class_name="org.apache.hadoop.hbase.ipc.FatalConnectionException")
    ((call, failure),) = ReplyDecoder().receive(data)
    assert call == FATAL_CALL
    assert isinstance(failure, ServerFailure)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x05\x08", id="header cut short"),
        pytest.param(b"\x00\x00", id="header without a number"),
        pytest.param(b"\x02\x08\x01", id="no message"),
        pytest.param(b"\x02\x08\x01\x05ab", id="message cut short"),
        pytest.param(b"\x02\x08\x01\x01ab", id="bytes behind the message"),
        pytest.param(b"\x06\x08\x01\x1a\x02\x08\x03\x00ab", id="cells cut short"),
        pytest.param(b"\x06\x08\x01\x1a\x02\x08\x01\x00ab", id="bytes behind the cells"),
        pytest.param(b"\x02\xff\xff\x00", id="header of other bytes"),
        pytest.param(b"\xff" * 40, id="length without end"),
    ],
)
def test_other_bytes_end_the_connection(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        ReplyDecoder().receive(framed(content))


def test_an_absurd_length_is_refused_before_it_is_read() -> None:
    with pytest.raises(RemoteProtocolError):
        ReplyDecoder().receive(b"\xff\xff\xff\xff")


@given(st.binary(max_size=200))
def test_garbage_is_read_as_nothing_worse_than_garbage(data: bytes) -> None:
    decoder = ReplyDecoder()
    try:
        decoder.receive(framed(data))
    except RemoteProtocolError:
        return
    assert data, "an empty frame is no reply"


def test_a_field_is_its_tag_its_length_and_its_content() -> None:
    assert delimited(b"\x0a", b"x" * 200) == b"\x0a\xc8\x01" + b"x" * 200
