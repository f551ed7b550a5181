"""As much of ZooKeeper's client protocol as the launcher needs: four-letter words, exists, create, children.

Source: the jute records ConnectRequest, RequestHeader, ExistsRequest, CreateRequest and GetChildrenRequest of
    zookeeper.jute.
"""

import struct
from typing import Self

from hedwig.cli.dev.probes.socket_frames import FrameSocket

__all__ = ["ZooKeeperError", "ZooKeeperSession", "four_letter_word"]

_CREATE, _EXISTS, _CHILDREN, _CLOSE = 1, 3, 8, -11
_NO_NODE, _NODE_EXISTS = -101, -110
_SESSION_TIMEOUT_MS = 6_000
_ALL_PERMISSIONS = 31


class ZooKeeperError(ConnectionError):
    """ZooKeeper refused a request; `code` is its error code."""

    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"ZooKeeper refused the request on {path} with error {code}")
        self.code = code


def four_letter_word(port: int, word: str, timeout_s: float) -> str:
    """Return the server's answer to `word`, for instance `srvr`.

    Raises: OSError - nothing answers.
    """
    with FrameSocket(port, timeout_s) as connection:
        connection.send(word.encode())
        return connection.receive_all().decode(errors="replace")


class ZooKeeperSession(FrameSocket):
    """A short session: opened when made, closed at the end of the with statement."""

    def __init__(self, port: int, timeout_s: float) -> None:
        super().__init__(port, timeout_s)
        self._calls = 0

    def __enter__(self) -> Self:
        try:
            # Protocol version, last zxid seen, session timeout, session id 0 for a new one, its password, read-only.
            self.send_frame(struct.pack(">iqiqi16s?", 0, 0, _SESSION_TIMEOUT_MS, 0, 16, b"", False))
            self.receive_frame()
        except BaseException:
            # What is not entered is not left either.
            self.__exit__(None, None, None)
            raise
        return self

    def exists(self, path: str) -> bool:
        """Tell whether the znode exists."""
        code = self._call(_EXISTS, path, _text(path) + b"\0")[0]
        return self._checked(path, code, _NO_NODE) == 0

    def create(self, path: str, content: str = "") -> bool:
        """Create a persistent znode that everybody may use; tell whether it was not there before."""
        acl = struct.pack(">ii", 1, _ALL_PERMISSIONS) + _text("world") + _text("anyone")
        code = self._call(_CREATE, path, _text(path) + _text(content) + acl + struct.pack(">i", 0))[0]
        return self._checked(path, code, _NODE_EXISTS) == 0

    def children(self, path: str) -> list[str]:
        """Return the names of the znode's children; none when it does not exist."""
        code, body = self._call(_CHILDREN, path, _text(path) + b"\0")
        if self._checked(path, code, _NO_NODE) != 0:
            return []
        (count,) = struct.unpack_from(">i", body)
        names, at = [], 4
        for _ in range(count):
            (size,) = struct.unpack_from(">i", body, at)
            names.append(body[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return names

    def close_session(self) -> None:
        """End the session at the server too."""
        self._call(_CLOSE, "the session", b"")

    def _call(self, operation: int, path: str, body: bytes) -> tuple[int, bytes]:
        self._calls += 1
        self.send_frame(struct.pack(">ii", self._calls, operation) + body)
        reply = self.receive_frame()
        if len(reply) < 16:
            raise ConnectionError(f"ZooKeeper's answer on {path} is cut short")
        call, _zxid, code = struct.unpack_from(">iqi", reply)
        if call != self._calls:
            raise ConnectionError(f"ZooKeeper answered call {call} instead of {self._calls}")
        return code, reply[16:]

    @staticmethod
    def _checked(path: str, code: int, expected: int) -> int:
        if code not in (0, expected):
            raise ZooKeeperError(path, code)
        return code


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack(">i", len(content)) + content
