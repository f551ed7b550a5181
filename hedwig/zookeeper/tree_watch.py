"""A watch over a whole tree of nodes, by which a server of release 3.6 or later reports every change below one node.

Kazoo 2.11 does not support such watches. This module adds the requests that set and end one, the error that there is
none, and the reception of its events. Kazoo passes an event to the watchers of exactly its path. Events of a tree have
any path below its root, so `hear_events` receives them before kazoo does that.

A TreeWatch rests on these facts:

- Kazoo reads a connection in one thread, in the order in which the server wrote to it. In the same thread it reports
  the loss of a connection, before it begins another. So when the answer to a request arrives, every event before that
  answer has arrived.
- A server writes the events of a change to the connection when it applies the change. It answers a request that it
  serves later after that. All servers apply changes one by one, in the same order.
- A watch belongs to one connection. When other watches are set again, a server reports the changes between two
  connections, but for trees it does not: they are lost. If a server loses its leader and the next leader brings it up
  to date, it ends all connections first.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, ZookeeperError
from kazoo.protocol.connection import CHILD_EVENT
from kazoo.protocol.serialization import Watch, int_struct, write_string

from hedwig.zookeeper.requests import Request

__all__ = ["TreeWatch", "hear_events", "leave_tree", "watch_tree"]

_NO_WATCHER: Final = -121
_RECURSIVE: Final = 1
_ANY: Final = 3
_ROOM_OF_A_PATH: Final = 128
"""The approximate memory of a path besides its own characters, in bytes."""


class TreeWatch:
    """The paths of nodes below `root` that were created, deleted or set, as long as one connection reports all of them.

    Its root and its bounds are fixed. The user begins it anew after each loss. Any thread may use it.
    """

    def __init__(self, root: str, wants: Callable[[str], bool], *, paths_max: int, bytes_max: int) -> None:
        """`wants` says which paths to keep. It runs in kazoo's thread, and must neither wait nor fail.

        At most `paths_max` paths, and `bytes_max` bytes of memory, are kept. Beyond that, all paths are dropped as
        lost.
        """
        self.root = root
        self._below = f"{root}/"
        self._wants = wants
        self._paths_max = paths_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._paths: dict[str, None] = {}
        self._bytes = 0
        self._loss: str | None = "it was not begun"

    @property
    def loss(self) -> str | None:
        """Return why paths since `begin` are missing; None if none is missing."""
        return self._loss

    def begin(self) -> None:
        """Drop all paths so far, and the loss of any."""
        with self._lock:
            self._clear()
            self._loss = None

    def note(self, path: str) -> None:
        """Record the path of one event."""
        if not path.startswith(self._below) or not self._wants(path):
            return
        with self._lock:
            if self._loss is not None or path in self._paths:
                return
            self._paths[path] = None
            self._bytes += len(path) + _ROOM_OF_A_PATH
            if len(self._paths) > self._paths_max or self._bytes > self._bytes_max:
                self._lose(f"more than {len(self._paths) - 1:,} records were changed, and the client keeps no more")

    def lose(self, why: str) -> None:
        """Record that events may be missing from now on."""
        with self._lock:
            if self._loss is None:
                self._lose(why)

    def take(self, most: int) -> list[str] | None:
        """Return at most `most` paths, and drop them; None if some paths are lost."""
        with self._lock:
            if self._loss is not None:
                return None
            taken = [self._paths.popitem()[0] for _ in range(min(most, len(self._paths)))]
            self._bytes -= sum(map(len, taken)) + _ROOM_OF_A_PATH * len(taken)
        return taken

    def _lose(self, why: str) -> None:
        self._loss = why
        self._clear()

    def _clear(self) -> None:
        self._paths = {}
        self._bytes = 0


def hear_events(client: KazooClient, hear: Callable[[str], None]) -> None:
    """Call `hear` with the path of every event, in kazoo's thread. Must be called before the client is started."""
    connection = client._connection
    read_on = connection._read_watch_event

    def read(buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type != CHILD_EVENT and event.path is not None:
            hear(event.path)
        read_on(buffer, offset)

    connection._read_watch_event = read


def watch_tree(root: str) -> Request:
    """Set the watch, which a connection may have already. Servers answer None, or older ones with an error.

    A server without such watches (UnimplementedError) ends the connection after its answer.
    """
    return lambda client: _call(client, _AddWatch(root))


def leave_tree(root: str) -> Request:
    """End the watch. Servers answer None or NoWatcherError."""
    return lambda client: _call(client, _RemoveWatches(root))


class NoWatcherError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """There is no such watch on this connection."""

    code = _NO_WATCHER


# An unknown code would end kazoo's thread.
if _NO_WATCHER not in EXCEPTIONS:
    EXCEPTIONS[_NO_WATCHER] = NoWatcherError


class _WatchRequest:
    """A request with a path and a number. Its answer has no content."""

    type: int
    number: int

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytes:
        return bytes(write_string(self._path) + int_struct.pack(self.number))

    @staticmethod
    def deserialize(_reply: bytes, _offset: int) -> None:
        """Accept the answer, which has no content: it means success."""


class _AddWatch(_WatchRequest):
    type = 106
    number = _RECURSIVE


class _RemoveWatches(_WatchRequest):
    type = 18
    number = _ANY


def _call(client: KazooClient, request: _WatchRequest) -> Any:
    result = client.handler.async_result()
    # Like kazoo's own requests, but without a chroot, which the sessions here do not have.
    client._call(request, result)
    return result
