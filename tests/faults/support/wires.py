"""How the proxy tells requests and replies apart: as much of two protocols as it needs."""

import struct
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["Reply", "Request", "ThriftWire", "Wire", "ZooKeeperWire"]


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes from a client that begin a request: its name, and the mark of its reply."""

    name: str
    mark: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes from the server that belong to the reply of the request with that mark; None: of no request."""

    mark: int | None
    data: bytes


class Wire(Protocol):
    """One connection, as the proxy reads it."""

    def requests(self, data: bytes) -> list[Request | bytes]:
        """Take bytes from the client; return requests, and bytes that continue one that has begun."""

    def replies(self, data: bytes) -> list[Reply]:
        """Take bytes from the server; return them by the request to which they reply."""


class ThriftWire:
    """Thrift's binary protocol without frames, one call at a time: bytes after a reply are the next request."""

    _HEAD: Final = b"\x80\x01\x00\x01"

    def __init__(self) -> None:
        self._mark = 0
        self._asked = False

    def requests(self, data: bytes) -> list[Request | bytes]:
        if self._asked:
            return [data]
        assert data.startswith(self._HEAD), f"not the beginning of a Thrift call: {data[:16]!r}"
        self._asked = True
        self._mark += 1
        length = int.from_bytes(data[4:8], "big")
        return [Request(data[8 : 8 + length].decode(), self._mark, data)]

    def replies(self, data: bytes) -> list[Reply]:
        self._asked = False
        return [Reply(self._mark, data)]


class ZooKeeperWire:
    """ZooKeeper's frames: each with its length, requests with a number and a type, replies with the same number.

    `session` is the id and the password by which another client can join the session; None before there is one.
    """

    _NAMES: Final = {1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 8: "children", 9: "sync", 11: "ping"}
    _MORE_NAMES: Final = {12: "children2", 14: "multi", -11: "close"}
    _LENGTH: Final = struct.Struct(">i")
    _NUMBER_AND_TYPE: Final = struct.Struct(">ii")
    _CONNECTED: Final = struct.Struct(">iiqi")
    _CONNECT: Final = 0

    def __init__(self) -> None:
        self.session: tuple[int, bytes] | None = None
        self._from_client = b""
        self._from_server = b""
        self._greeted = False
        self._answered = False

    def requests(self, data: bytes) -> list[Request | bytes]:
        frames, self._from_client = self._frames(self._from_client + data)
        return [self._request(frame) for frame in frames]

    def replies(self, data: bytes) -> list[Reply]:
        frames, self._from_server = self._frames(self._from_server + data)
        return [self._reply(frame) for frame in frames]

    def _request(self, frame: bytes) -> Request:
        if not self._greeted:
            self._greeted = True
            return Request("connect", self._CONNECT, frame)
        number, kind = self._NUMBER_AND_TYPE.unpack_from(frame, self._LENGTH.size)
        return Request(self._NAMES.get(kind) or self._MORE_NAMES.get(kind) or str(kind), number, frame)

    def _reply(self, frame: bytes) -> Reply:
        body = frame[self._LENGTH.size :]
        if not self._answered:
            self._answered = True
            _, _, session_id, length = self._CONNECTED.unpack_from(body)
            self.session = session_id, body[self._CONNECTED.size : self._CONNECTED.size + length]
            return Reply(self._CONNECT, frame)
        (number,) = self._LENGTH.unpack_from(body)
        return Reply(number if number > 0 else None, frame)

    def _frames(self, data: bytes) -> tuple[list[bytes], bytes]:
        frames = []
        while len(data) >= self._LENGTH.size:
            end = self._LENGTH.size + self._LENGTH.unpack_from(data)[0]
            if len(data) < end:
                break
            frames.append(data[:end])
            data = data[end:]
        return frames, data
