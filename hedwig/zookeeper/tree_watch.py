"""A watch over a whole tree of nodes, by which a server of release 3.6 or later tells every change below one node.

Kazoo 2.11 does not know such watches, so three things are added to it here: the requests that set and end one, the
error that there is none, and an ear for its events. Kazoo takes an event to those who watch exactly its path; those of
a tree have any path below its root, so `hear_events` listens in front of that.

What a TreeWatch rests on:

- Kazoo reads a connection in one thread, in the order in which the server wrote to it, and says in that thread too that
  it was lost, before it begins another. So whoever has the answer to a request has had every event before that answer.
- A server writes the events of a change to the connection when it applies the change, and answers a request that it
  serves later after that. Changes are applied one by one, in the order that the whole ensemble has.
- A watch is one connection's. What happens between two connections, a server tells for other watches when they are set
  again, but for no tree: it is lost. A server that loses its leader, and is brought up to date by the next one, ends
  all connections first.
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
"""About what a path takes besides its own characters, in bytes."""


class TreeWatch:
    """The paths below `root` at which something was created, deleted or set, while one connection told all of them.

    It has its root and its bounds for good, and is begun anew after each loss. Safe to use from any thread.
    """

    def __init__(self, root: str, wants: Callable[[str], bool], *, paths_max: int, bytes_max: int) -> None:
        """`wants` says which paths are kept; it runs in kazoo's thread, and must neither wait nor fail.

        Up to `paths_max` paths, and `bytes_max` bytes of memory, are kept; with more, all are given up as lost.
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
        """Return why paths since `begin` are missing, or None: none is."""
        return self._loss

    def begin(self) -> None:
        """Forget what was told so far, also that it was not all."""
        with self._lock:
            self._clear()
            self._loss = None

    def note(self, path: str) -> None:
        """Take one event."""
        if not path.startswith(self._below) or not self._wants(path):
            return
        with self._lock:
            if self._loss is not None or path in self._paths:
                return
            self._paths[path] = None
            self._bytes += len(path) + _ROOM_OF_A_PATH
            if len(self._paths) > self._paths_max or self._bytes > self._bytes_max:
                self._lose(f"more than {len(self._paths) - 1:,} records were changed, which is as many as are kept")

    def lose(self, why: str) -> None:
        """Take it that events may be missing from now on."""
        with self._lock:
            if self._loss is None:
                self._lose(why)

    def take(self, most: int) -> list[str] | None:
        """Return up to `most` paths, and forget them; None if some that were told are lost."""
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
    """Have `hear` told the path of every event, in kazoo's thread. To be called before the client is started."""
    connection = client._connection
    read_on = connection._read_watch_event

    def read(buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type != CHILD_EVENT and event.path is not None:
            hear(event.path)
        read_on(buffer, offset)

    connection._read_watch_event = read


def watch_tree(root: str) -> Request:
    """Set the watch, which a connection may have already. Answered None, or with an error by older servers.

    Those that have no such watches (UnimplementedError) end the connection behind their answer.
    """
    return lambda client: _call(client, _AddWatch(root))


def leave_tree(root: str) -> Request:
    """End the watch. Answered None, or with NoWatcherError."""
    return lambda client: _call(client, _RemoveWatches(root))


class NoWatcherError(ZookeeperError):  # type: ignore[misc]  # kazoo has no types
    """There is no such watch on this connection."""

    code = _NO_WATCHER


# A code that it does not know ends kazoo's thread.
if _NO_WATCHER not in EXCEPTIONS:
    EXCEPTIONS[_NO_WATCHER] = NoWatcherError


class _WatchRequest:
    """A request of a path and a number, whose answer has no content."""

    type: int
    number: int

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytes:
        return bytes(write_string(self._path) + int_struct.pack(self.number))

    @staticmethod
    def deserialize(_reply: bytes, _offset: int) -> None:
        """Take the answer, which says all by being no error."""


class _AddWatch(_WatchRequest):
    type = 106
    number = _RECURSIVE


class _RemoveWatches(_WatchRequest):
    type = 18
    number = _ANY


def _call(client: KazooClient, request: _WatchRequest) -> Any:
    result = client.handler.async_result()
    # As kazoo's own requests do; the sessions here have no chroot.
    client._call(request, result)
    return result
