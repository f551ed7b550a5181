"""ZooKeeper servers that lag behind the leader, and answer from an earlier state."""

import struct
from dataclasses import dataclass, field
from typing import Final

from tests.faults.support.wires import Reply, Request, ZooKeeperWire

__all__ = ["Behind", "BehindWire", "Lag", "LaggingWire"]

_HEAD_BYTES: Final = 4 + 16
"""The length; then the number, the zxid and the error of a reply."""
_NUMBER: Final = struct.Struct(">i")
_PATH_AT: Final = 12
_WATCH_FIRED: Final = -1
_NO_NODE: Final = -101


@dataclass(slots=True)
class Lag:
    """Whether the server lags. It then repeats its last listing of the children of each node."""

    is_on: bool = False
    listings: dict[bytes, bytes] = field(default_factory=dict)
    hidden: int = 0


@dataclass(slots=True)
class Behind:
    """The path below which a server knows no node until a `sync`; None: it knows all nodes."""

    below: str | None = None
    hidden: int = 0


class BehindWire(ZooKeeperWire):
    """ZooKeeper's frames, in which reads find no node where the server is `behind`."""

    def __init__(self, behind: Behind) -> None:
        super().__init__()
        self._behind = behind
        self._asked: set[int] = set()

    def requests(self, data: bytes) -> list[Request | bytes]:
        requests = super().requests(data)
        for request in requests:
            assert isinstance(request, Request)
            if request.name == "sync":
                self._behind.below = None
            elif request.name in ("get", "exists") and self._is_hidden(request.data):
                self._asked.add(request.mark)
        return requests

    def _is_hidden(self, request: bytes) -> bool:
        below = self._behind.below
        return below is not None and request.startswith(below.encode(), _PATH_AT + _NUMBER.size)

    def replies(self, data: bytes) -> list[Reply]:
        return [self._changed(reply) for reply in super().replies(data)]

    def _changed(self, reply: Reply) -> Reply:
        if reply.mark not in self._asked:
            return reply
        self._asked.discard(reply.mark)
        self._behind.hidden += 1
        # Keep the number and the zxid of the reply.
        frame = reply.data[4 : _HEAD_BYTES - _NUMBER.size] + _NUMBER.pack(_NO_NODE)
        return Reply(reply.mark, _NUMBER.pack(len(frame)) + frame)


class LaggingWire(ZooKeeperWire):
    """ZooKeeper's frames, with old listings while `lag` is on. Reads of a node's content return the current one."""

    def __init__(self, lag: Lag) -> None:
        super().__init__()
        self._lag = lag
        self._asked: dict[int, bytes] = {}

    def requests(self, data: bytes) -> list[Request | bytes]:
        requests = super().requests(data)
        for request in requests:
            if isinstance(request, Request) and request.name.startswith("children"):
                (length,) = _NUMBER.unpack_from(request.data, _PATH_AT)
                start = _PATH_AT + _NUMBER.size
                self._asked[request.mark] = request.data[start : start + length]
        return requests

    def replies(self, data: bytes) -> list[Reply]:
        return [changed for reply in super().replies(data) if (changed := self._changed(reply)) is not None]

    def _changed(self, reply: Reply) -> Reply | None:
        lag = self._lag
        if lag.is_on and reply.mark is None and _NUMBER.unpack_from(reply.data, 4)[0] == _WATCH_FIRED:
            lag.hidden += 1
            return None
        path = None if reply.mark is None else self._asked.pop(reply.mark, None)
        if path is None:
            return reply
        head, body = reply.data[:_HEAD_BYTES], reply.data[_HEAD_BYTES:]
        if not lag.is_on:
            lag.listings[path] = body
            return reply
        lag.hidden += 1
        frame = head[4:] + lag.listings[path]
        return Reply(reply.mark, _NUMBER.pack(len(frame)) + frame)
