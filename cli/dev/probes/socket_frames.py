"""Blocking exchange of length-prefixed frames with a server, for readiness probes."""

import socket
from types import TracebackType
from typing import Self

from hedwig.cli.dev.ports import LOOPBACK

__all__ = ["FRAME_BYTES_MAX", "FrameSocket"]

FRAME_BYTES_MAX = 16 * 1024 * 1024


class FrameSocket:
    """A connection whose every send and receive has a deadline.

    Raises in every operation: OSError (ConnectionError and TimeoutError among them) - no answer, or the server closed
        the connection.
    """

    def __init__(self, port: int, timeout_s: float) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout_s)
        self._socket.settimeout(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, content: bytes) -> None:
        """Send `content` as it is."""
        self._socket.sendall(content)

    def send_frame(self, content: bytes) -> None:
        """Send `content` after its length in four bytes, big endian."""
        self.send(len(content).to_bytes(4, "big") + content)

    def receive(self, count: int) -> bytes:
        """Receive exactly `count` bytes."""
        content = bytearray()
        while len(content) < count:
            part = self._socket.recv(count - len(content))
            if not part:
                raise ConnectionError("the server closed the connection")
            content += part
        return bytes(content)

    def receive_frame(self) -> bytes:
        """Receive one frame."""
        size = int.from_bytes(self.receive(4), "big")
        if size > FRAME_BYTES_MAX:
            raise ConnectionError(f"the server sent a frame of {size} bytes, which is no answer of its protocol")
        return self.receive(size)

    def receive_all(self) -> bytes:
        """Receive until the server closes, at most FRAME_BYTES_MAX bytes."""
        content = bytearray()
        while len(content) < FRAME_BYTES_MAX:
            part = self._socket.recv(65_536)
            if not part:
                break
            content += part
        return bytes(content)
