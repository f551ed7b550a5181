"""A ZooKeeper server that lags behind: it lists the hubs as they once were, and no watch of its clients fires."""

import struct
from dataclasses import dataclass, field
from typing import Final

from tests.faults.wires import Reply, Request, ZooKeeperWire

__all__ = ["Lag", "LaggingWire"]

_HEAD_BYTES: Final = 4 + 16
"""The length; then the number, the zxid and the error of a reply."""
_NUMBER: Final = struct.Struct(">i")
_PATH_AT: Final = 12
_WATCH_FIRED: Final = -1


@dataclass(slots=True)
class Lag:
    """Whether the server lags, and what it then says of the children of each node: what it said last before."""

    is_on: bool = False
    listings: dict[bytes, bytes] = field(default_factory=dict)
    hidden: int = 0


class LaggingWire(ZooKeeperWire):
    """ZooKeeper's frames, with listings of the past while `lag` is on. Reads of a node's content tell the present."""

    def __init__(self, lag: Lag) -> None:
        super().__init__()
        self._lag = lag
        self._asked: dict[int, bytes] = {}

    def requests(self, data: bytes) -> list[Request | bytes]:
        found = super().requests(data)
        for request in found:
            if isinstance(request, Request) and request.name.startswith("children"):
                (length,) = _NUMBER.unpack_from(request.data, _PATH_AT)
                start = _PATH_AT + _NUMBER.size
                self._asked[request.mark] = request.data[start : start + length]
        return found

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
