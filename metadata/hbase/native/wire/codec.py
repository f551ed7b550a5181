"""The codec of a connection: its beginning, calls, and replies. No socket, no clock.

    to the server     "HBas", 00, 50; then frames: a ConnectionHeader, and calls
    a frame           its length N in four bytes, big-endian, and N bytes
    a call            varint and RequestHeader, varint and request message
    a reply           varint and ResponseHeader, varint and response message unless the header has an exception,
                      and the cells, of which the header has the number of bytes

In place of 50, 51 begins a login by Kerberos (`logins.py`); the frames follow that.

Replies come in any order and name their call by its number. Connections that read whole tables agree on a cell codec
(`cell_blocks.py`). On the others, cells are in the messages, and nothing follows these.
The messages of each operation are encoded and decoded by hand, from the numbers in hbase.proto. Measured, that takes a
fifth of the time of message objects.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from hedwig.errors import LocalProtocolError, RemoteProtocolError
from hedwig.metadata.hbase.native.hbase_pb2 import ConnectionHeader, ResponseHeader, UserInformation, VersionInfo
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.wire.frames import FrameDecoder

__all__ = [
    "CALL_BYTES_MAX",
    "FATAL_CALL",
    "Reply",
    "ReplyDecoder",
    "delimited",
    "encode_call",
    "header",
    "preamble",
    "varint",
]

CALL_BYTES_MAX: Final = 4 << 20
"""The longest call. HBase closes a connection, with every call in flight, over a frame beyond its limit of 256 MiB."""

REPLY_BYTES_MAX: Final = 128 << 20
"""The longest reply. HBase ends a reply to a scan at 100 MiB."""

FATAL_CALL: Final = 0xFFFFFFFF
"""The number of a reply that concerns the whole connection. The connection ends with it."""

_PREAMBLE: Final = b"HBas\x00"
_SIMPLE: Final = b"\x50"
_LENGTH: Final = struct.Struct(">I")
_ONE_BYTE: Final = [bytes([number]) for number in range(128)]
_TWO_BYTES_END: Final = 1 << 14
_CALL_ID_TAG: Final = 0x08
_CELL_CODEC: Final = "org.apache.hadoop.hbase.codec.KeyValueCodec"
_VERSION: Final = VersionInfo(
    version="2.6.1", url="", revision="", user="", date="", src_checksum="", version_major=2, version_minor=6
)


class Reply(NamedTuple):
    """The reply to one call: its encoded response message, and the cells behind it."""

    body: bytes
    cells: bytes = b""


def varint(number: int) -> bytes:
    """Return the variable-length form of a number that is not negative."""
    if number < 128:
        return _ONE_BYTE[number]
    if number < _TWO_BYTES_END:
        return bytes((number & 127 | 128, number >> 7))
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def delimited(tag: bytes, content: bytes) -> bytes:
    """Return a field of bytes or of a message, which is its tag, its length and its content."""
    size = len(content)
    return tag + (_ONE_BYTE[size] if size < 128 else varint(size)) + content


def preamble(login: bytes = _SIMPLE) -> bytes:
    """Return the first bytes of a connection; they say by which kind of login it begins."""
    return _PREAMBLE + login


def header(service: str, user: str | None, *, in_blocks: bool = False) -> bytes:
    """Return what says which service of a server a connection is for. The server answers only to refuse it.

    Args: user - None after a login, which has told it; in_blocks - the server may send cells after replies' messages.
    """
    header = ConnectionHeader(
        user_info=None if user is None else UserInformation(effective_user=user),
        service_name=service,
        cell_block_codec_class=_CELL_CODEC if in_blocks else None,
        version_info=_VERSION,
    ).SerializeToString()
    return _LENGTH.pack(len(header)) + header


def encode_call(call: int, method: str, request: bytes, timeout_ms: int) -> bytes:
    """Return the frame of one call. The server drops the call without a reply after `timeout_ms`.

    Raises: LocalProtocolError - the frame is longer than CALL_BYTES_MAX.
    """
    header = b"\x08" + varint(call) + _method(method) + varint(timeout_ms)
    head = varint(len(header)) + header + varint(len(request))
    length = len(head) + len(request)
    if length > CALL_BYTES_MAX:
        raise LocalProtocolError(f"a {method} of {length} bytes was not sent; HBase gets at most {CALL_BYTES_MAX}")
    return _LENGTH.pack(length) + head + request


@lru_cache(maxsize=64)
def _method(name: str) -> bytes:
    """Return the bytes between the number and the timeout of a call."""
    return delimited(b"\x1a", name.encode()) + b"\x20\x01\x38"


class ReplyDecoder:
    """Cuts what a connection receives into replies."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = FrameDecoder(REPLY_BYTES_MAX)

    def receive(self, data: bytes) -> Sequence[tuple[int, bytes | Reply | ServerFailure]]:
        """Return the replies that are complete now, in the order of their arrival, each with the number of its call.

        A reply is a message, a message with cells after it, or a failure.

        Raises: RemoteProtocolError - these bytes are no replies. Nothing can be read after them.
        """
        return [_reply(frame) for frame in self._frames.receive(data)]


def _reply(frame: bytes) -> tuple[int, bytes | Reply | ServerFailure]:
    try:
        size, start = _take_varint(frame, 0)
        end = start + size
        call, behind = _take_varint(frame, start + 1) if frame[start] == _CALL_ID_TAG else (0, 0)
        block = 0
        # A header with more than a number is decoded as a message.
        if behind != end:
            header = ResponseHeader.FromString(frame[start:end])
            if end > len(frame) or not header.HasField("call_id"):
                raise RemoteProtocolError("a reply of HBase names no call")
            call = header.call_id
            if header.HasField("exception"):
                return call, ServerFailure.of_call(header.exception)
            block = header.cell_block_meta.length
        size, start = _take_varint(frame, end)
    except (DecodeError, IndexError) as exc:
        raise RemoteProtocolError(f"a reply of HBase cannot be read: {exc}") from exc
    if start + size + block != len(frame):
        raise RemoteProtocolError(f"a reply of HBase has {len(frame) - start} bytes where it announces {size + block}")
    body = frame[start : start + size]
    return call, Reply(body, frame[start + size :]) if block else body


def _take_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and where it ends. Raises IndexError if it does not end."""
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
