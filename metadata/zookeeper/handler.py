"""How kazoo's thread waits, wakes and completes: kazoo's own handler with its three slow or blocking parts replaced.

- Kazoo wakes its connection thread through a socket pair, one byte per request, with a send that blocks: a few hundred
  requests queued while a server hangs would stop the event loop that submits them. `_WakeUps` keeps the count in memory
  and at most one byte on the wire.
- Kazoo makes an epoll object for every wait, several per request. `select` here is one `poll` call.
- Kazoo completes a request through a condition, a queue and another thread. `_Completion` runs its callback at once, in
  the connection thread, which is why a callback may only hand over and return.

Everything replaced is part of kazoo's documented handler interface (`kazoo.interfaces.IHandler`, `IAsyncResult`).
"""

import math
import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

__all__ = ["PromptHandler"]

_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL
_WRITABLE = select.POLLOUT | select.POLLHUP | select.POLLERR | select.POLLNVAL


class PromptHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threading handler, for many requests in flight submitted by an event loop."""

    name = "prompt_handler"

    def async_result(self) -> "_Completion":
        return _Completion()

    def create_socket_pair(self) -> tuple["_WakeUps", "_WakeUps"]:
        wake_ups = _WakeUps()
        return wake_ups, wake_ups

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        # Rounded up: a wait cut short would look like a server that missed its time.
        ready = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
        return (
            [reader for reader in readers if ready.get(reader.fileno(), 0) & _READABLE],
            [writer for writer in writers if ready.get(writer.fileno(), 0) & _WRITABLE],
            [],
        )


class _WakeUps:
    """Both ends of kazoo's wake-up pipe: `send` never blocks, `recv` takes back one send."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._lock = threading.Lock()
        self._count = 0

    def fileno(self) -> int:
        return self._far.fileno()

    def send(self, data: bytes) -> int:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._near.send(b"\0")
        return len(data)

    def recv(self, _: int) -> bytes:
        with self._lock:
            if self._count == 0:
                return b""
            self._count -= 1
            if self._count == 0:
                self._far.recv(1)
        return b"\0"

    def close(self) -> None:
        self._near.close()
        self._far.close()


class _Completion:
    """The outcome of one request, given to each callback exactly once, in the thread that learns it last.

    Needs no lock: the flag is set before the callbacks are taken, a callback is added before the flag is read, and
    taking one from a list is atomic.
    """

    __slots__ = ("_callbacks", "_ready", "exception", "value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[_Completion], object]] = []
        self._ready = False
        self.value: Any = None
        self.exception: BaseException | None = None

    def ready(self) -> bool:
        return self._ready

    def successful(self) -> bool:
        return self._ready and self.exception is None

    def set(self, value: Any = None) -> None:
        self.value = value
        self._ready = True
        self._call_back()

    def set_exception(self, exception: BaseException) -> None:
        self.exception = exception
        self._ready = True
        self._call_back()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value or raise the exception of a request that is done; kazoo asks for it in callbacks only."""
        if not self._ready:
            raise KazooTimeoutError(f"not done yet; block={block} and timeout={timeout} are not served here")
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def rawlink(self, callback: "Callable[[_Completion], object]") -> None:
        self._callbacks.append(callback)
        if self._ready:
            self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            callback(self)
