"""Frames arrive whole, however the stream is cut, and a frame over the limit is refused before it is held in memory."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import LocalProtocolError, RemoteProtocolError
from hedwig.wire import HUB_FRAME_BYTES_MAX, FrameDecoder, encode_frame

LIMIT = 64
BODIES = [b"", b"a", b"bc" * 20, b"", b"\x00" * 7, b"d" * (LIMIT - 4)]
STREAM = b"".join(encode_frame(body, LIMIT) for body in BODIES)


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_stream_cut_anywhere_gives_the_same_frames(cut: int) -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.receive(STREAM[:cut]) + decoder.receive(STREAM[cut:]) == BODIES
    assert decoder.is_between_frames


def test_a_stream_byte_by_byte_gives_the_same_frames() -> None:
    decoder = FrameDecoder(LIMIT)
    assert [body for byte in STREAM for body in decoder.receive(bytes([byte]))] == BODIES


def test_half_a_frame_is_noticed() -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.receive(STREAM[:6]) == [b""]
    assert not decoder.is_between_frames


@pytest.mark.parametrize("over", [1, 2**31, 2**32 - 1 - (LIMIT - 4)])
def test_a_frame_over_the_limit_is_refused_by_its_length_alone(over: int) -> None:
    decoder = FrameDecoder(LIMIT)
    with pytest.raises(RemoteProtocolError, match="at most 60"):
        decoder.receive(struct.pack(">I", LIMIT - 4 + over))


def test_what_came_whole_before_a_frame_over_the_limit_is_not_lost() -> None:
    """The stream may come in one piece, or be cut at the frame that is too long."""
    too_long = struct.pack(">I", LIMIT)
    decoder = FrameDecoder(LIMIT)
    assert decoder.receive(STREAM + too_long) == BODIES
    assert decoder.refusal is not None
    with pytest.raises(RemoteProtocolError):
        decoder.receive(b"")
    decoder = FrameDecoder(LIMIT)
    assert decoder.receive(STREAM) == BODIES
    assert decoder.refusal is None
    with pytest.raises(RemoteProtocolError):
        decoder.receive(too_long)


def test_the_limit_counts_the_length_like_the_original() -> None:
    decoder = FrameDecoder(HUB_FRAME_BYTES_MAX)
    assert decoder.receive(struct.pack(">I", 1_258_287)) == []
    with pytest.raises(RemoteProtocolError):
        FrameDecoder(HUB_FRAME_BYTES_MAX).receive(struct.pack(">I", 1_258_288))


def test_we_do_not_send_what_the_other_end_would_refuse() -> None:
    assert len(encode_frame(bytes(LIMIT - 4), LIMIT)) == LIMIT
    with pytest.raises(LocalProtocolError):
        encode_frame(bytes(LIMIT - 3), LIMIT)


@given(st.lists(st.binary(max_size=80), max_size=8))
def test_random_bytes_are_frames_or_a_protocol_error(chunks: list[bytes]) -> None:
    decoder = FrameDecoder(LIMIT)
    try:
        bodies = [body for chunk in chunks for body in decoder.receive(chunk)]
    except RemoteProtocolError:
        return
    assert sum(len(body) + 4 for body in bodies) <= sum(map(len, chunks))
