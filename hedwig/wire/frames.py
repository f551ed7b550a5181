"""Frames: how a byte stream is cut into messages.

A frame is a length N in four bytes, unsigned, big-endian, and N bytes of one message. A limit on the size includes the
four bytes, as the original's `max_message_size` does.

Example: the frame of a body of six bytes, the answer to an UNSUBSCRIBE: 00 00 00 06 08 01 10 00 18 0c.
"""

import struct
from typing import Final

from hedwig.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["CLIENT_FRAME_BYTES_MAX", "HUB_FRAME_BYTES_MAX", "LENGTH_BYTES", "FrameDecoder", "encode_frame"]

LENGTH_BYTES: Final = 4
HUB_FRAME_BYTES_MAX: Final = 1_258_291
"""The original hub's limit on the frames of clients."""

CLIENT_FRAME_BYTES_MAX: Final = 2_097_152
"""The original client's limit on the frames of hubs. It is larger, since a delivery wraps a message."""

_LENGTH: Final = struct.Struct(">I")


def encode_frame(body: bytes, frame_bytes_max: int) -> bytes:
    """Return the frame of a message. Raises LocalProtocolError if the other end would refuse its size."""
    if len(body) + LENGTH_BYTES > frame_bytes_max:
        raise LocalProtocolError(
            f"a message of {len(body)} bytes does not fit into a frame; at most {frame_bytes_max - LENGTH_BYTES} do"
        )
    return _LENGTH.pack(len(body)) + body


_HTTP_ANSWER: Final = b"HTTP"
_HTTP_REQUESTS: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "})
"""The first bytes of HTTP. Read as the length of a frame, each is over 1 GB, and so over any limit."""


class FrameDecoder:
    """Cuts the received bytes of a connection into the bodies of frames.

    It holds at most one incomplete frame, so the limit and the size of one read bound its memory.
    """

    __slots__ = ("_buffer", "_is_first", "frame_bytes_max", "is_http_request", "refusal")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        """The limit on frames from the next one on."""
        self._buffer = bytearray()
        self._is_first = True
        """Whether no frame has arrived yet. Only then the other end may speak another protocol."""
        self.refusal: str | None = None
        """Why nothing more can be read, once this is the case."""
        self.is_http_request = False
        """Whether the reason is that the other end sent an HTTP request."""

    def receive(self, data: bytes) -> list[bytes]:
        """Return the bodies that are complete now, in order.

        If complete frames precede a frame over the limit, they are returned and `refusal` is set. So it makes no
        difference how the network cut the bytes.

        Raises: RemoteProtocolError - a frame announces more than the limit; nothing can be read after it.
        """
        if self.refusal is not None:
            raise RemoteProtocolError(self.refusal)
        if self._buffer:
            self._buffer += data
            if self._is_incomplete:
                return []  # Else a frame that comes byte by byte would be copied as often.
            data = bytes(self._buffer)
        bodies: list[bytes] = []
        begin, size, most = LENGTH_BYTES, len(data), self.frame_bytes_max - LENGTH_BYTES
        while begin <= size:
            (length,) = _LENGTH.unpack_from(data, begin - LENGTH_BYTES)
            if length > most:
                self.refusal = self._why_refused(data[begin - LENGTH_BYTES : begin], length)
                break
            end = begin + length
            if size < end:
                break
            bodies.append(data[begin:end])
            begin = end + LENGTH_BYTES
            self._is_first = False
        self._buffer = bytearray(data[begin - LENGTH_BYTES :])
        if self.refusal is not None and not bodies:
            raise RemoteProtocolError(self.refusal)
        return bodies

    @property
    def _is_incomplete(self) -> bool:
        """Whether the first frame needs more bytes, and may have them."""
        if len(self._buffer) < LENGTH_BYTES:
            return True
        (length,) = _LENGTH.unpack_from(self._buffer)
        return bool(len(self._buffer) < LENGTH_BYTES + length <= self.frame_bytes_max)

    def _why_refused(self, head: bytes, length: int) -> str:
        if self._is_first and head == _HTTP_ANSWER:
            return "the other end speaks HTTP: this is an HTTP server's port, such as that of a hub's admin endpoint"
        self.is_http_request = self._is_first and head in _HTTP_REQUESTS
        if self.is_http_request:
            return "the client sent an HTTP request; this port is for clients of Hedwig"
        most = self.frame_bytes_max - LENGTH_BYTES
        return f"a frame of {length} bytes was announced; at most {most} are allowed"

    def drop(self) -> None:
        """Drop an incomplete frame; nothing can be read after it."""
        self._buffer = bytearray()

    @property
    def held_bytes(self) -> int:
        """Return the number of bytes of an incomplete frame that are held."""
        return len(self._buffer)

    @property
    def is_between_frames(self) -> bool:
        """Say whether no part of a further frame has arrived, so that the stream may end here."""
        return not self._buffer
