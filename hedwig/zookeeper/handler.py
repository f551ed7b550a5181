"""How kazoo's thread waits, reads, wakes and completes: kazoo's own handler with its slow or blocking parts replaced.

- Kazoo wakes its connection thread through a socket pair, with one byte per request and a send that blocks. If a server
  hangs, a few hundred queued requests would stop the event loop that submits them. `_WakeUps` keeps the count in memory
  and at most one byte on the wire.
- Kazoo makes eight or more system calls per request: an epoll object for every wait, a wait before every read and
  write, two reads per reply. `_BufferedSocket` and `select` read all available bytes and write all gathered bytes in
  one call each. They wait only when there is nothing else to do.
- Kazoo completes a request through a condition, a queue and another thread. `_Completion` runs its callback at once, in
  the connection thread. So a callback may only hand the result over and return.

- Kazoo's TLS takes its files once, and does not check the server's name unless told. Here each connection takes the
  files as they are then, and always checks it.

All replaced parts belong to kazoo's documented handler interface (`kazoo.interfaces.IHandler`, `IAsyncResult`). The one
exception is `pending` of a socket, by which kazoo asks a TLS socket whether data can be read without waiting.
"""

import contextlib
import math
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

from hedwig.errors import ConfigurationError
from hedwig.reasons import reason_of
from hedwig.store_access import TlsFiles

__all__ = ["PromptHandler"]

_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL
_CHUNK_BYTES: Final = 64 * 1024
_UNSENT_BYTES_MAX: Final = 256 * 1024
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_GREETING: Final = struct.Struct(">8xi")
"""Length, protocol version and session timeout (ms) of the answer to a connect request."""


class PromptHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threading handler, for many requests in flight submitted by an event loop."""

    name = "prompt_handler"

    def __init__(self, tcp_timeout_s: float, tls: TlsFiles | None = None) -> None:
        """Create a handler that tries a server for `tcp_timeout_s` before the next. Kazoo would try a whole session."""
        super().__init__()
        self._tcp_timeout_s = tcp_timeout_s
        self._tls = tls
        self._connected: _BufferedSocket | None = None
        self.failure = ""
        """Why the latest attempt to connect failed; empty if it did not."""

    @property
    def session_timeout_s(self) -> float:
        """Return the session timeout of the latest connection, as the server set it. Kazoo does not expose it."""
        return 0.0 if self._connected is None else self._connected.session_timeout_s

    def drop_connection(self) -> None:
        """End the latest connection as if the network had failed. Kazoo then makes another. From any thread."""
        if self._connected is not None:
            self._connected.shut_down()

    def async_result(self) -> "_Completion":
        return _Completion()

    def create_socket_pair(self) -> tuple["_WakeUps", "_WakeUps"]:
        wake_ups = _WakeUps()
        return wake_ups, wake_ups

    def create_connection(self, *args: Any, **kwargs: Any) -> "_BufferedSocket":
        kwargs["timeout"] = min(kwargs["timeout"], self._tcp_timeout_s)
        try:
            connection = super().create_connection(*args, **kwargs)
            if self._tls is not None:
                connection = _wrapped(connection, kwargs["hostname"], self._tls, kwargs["timeout"])
        except OSError as exc:
            self.failure = reason_of(exc)
            raise
        self.failure = ""
        self._connected = _BufferedSocket(connection)
        return self._connected

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait until a reader has data or a writer has room. All of them are objects of this module."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            ready = [reader for reader in readers if reader.pending()]
            roomy = [writer for writer in writers if writer.has_room()]
            if ready or roomy:
                return ready, roomy, []
            if not _wait([*readers, *writers], until):
                return [], [], []


def _wrapped(connection: socket.socket, host: str, tls: TlsFiles, timeout_s: float) -> ssl.SSLSocket:
    """Return a connection after its TLS handshake. Raises OSError; then the connection is closed."""
    try:
        connection.settimeout(timeout_s)
        return tls.context().wrap_socket(connection, server_hostname=host)
    except ConfigurationError as exc:
        connection.close()
        raise OSError(str(exc)) from exc
    except BaseException:
        connection.close()
        raise


def _wait(ends: Sequence[Any], until: float | None) -> bool:
    """Send the gathered bytes, and wait until data can be read or more can be sent; return False if time ran out."""
    poll = select.poll()
    by_number = {}
    for end in ends:
        poll.register(end, select.POLLIN | (0 if end.flush() else select.POLLOUT))
        by_number[end.fileno()] = end
    # Rounded up, since a wait that is too short would look like a server that missed its time.
    left_ms = None if until is None else max(0, math.ceil((until - time.monotonic()) * 1000))
    events = poll.poll(left_ms)
    for number, event in events:
        if event & _READABLE:
            by_number[number].fill()
    return bool(events)


class _BufferedSocket:
    """A connection that reads ahead, and sends the gathered bytes when its thread is about to wait."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._unread = b""
        self._read_to = 0
        self._unsent = bytearray()
        self._ended = False
        self._greeting = b""
        self._closing = threading.Lock()

    @property
    def session_timeout_s(self) -> float:
        """Return the session timeout from the answer to the connect request, which is the first on a connection."""
        return _GREETING.unpack(self._greeting)[0] / 1000 if len(self._greeting) == _GREETING.size else 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        self._socket.setblocking(flag)

    def getpeername(self) -> Any:
        return self._socket.getpeername()

    def pending(self) -> int:
        """Return how many bytes can be read without waiting. The end of the stream counts, as it must be read too."""
        return len(self._unread) - self._read_to or int(self._ended)

    def has_room(self) -> bool:
        return len(self._unsent) < _UNSENT_BYTES_MAX

    def fill(self) -> None:
        """Read the available bytes. Raises OSError if the connection is lost."""
        if self._read_to == len(self._unread) and not self._ended:
            try:
                # Over TLS it is longer than any record, so no decrypted byte stays where `poll` does not see it.
                self._unread = self._socket.recv(_CHUNK_BYTES)
            except _NOT_NOW:
                return
            self._read_to = 0
            self._ended = not self._unread
            if missing := _GREETING.size - len(self._greeting):
                self._greeting += self._unread[:missing]

    def recv(self, size: int) -> bytes:
        """Return at most `size` of the bytes that `pending` announced; nothing at the end of the stream."""
        self.fill()
        start = self._read_to
        self._read_to = min(start + size, len(self._unread))
        return self._unread[start : self._read_to]

    def send(self, data: bytes) -> int:
        self._unsent += data
        return len(data)

    def flush(self) -> bool:
        """Send as many bytes as the connection takes; return whether all were sent."""
        if self._unsent:
            try:
                del self._unsent[: self._socket.send(self._unsent)]
            except _NOT_NOW:
                return False
        return not self._unsent

    def shut_down(self) -> None:
        """Let both sides see the end of the stream. From any thread, also after `close`."""
        with self._closing, contextlib.suppress(OSError):
            # That of a TLS socket would have the other thread read on without decrypting.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        # Not in the middle of a shutdown: by then another socket might have the same file descriptor.
        with self._closing:
            self._socket.close()


class _WakeUps:
    """Both ends of kazoo's wake-up pipe. `send` never blocks; `recv` removes one send."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._lock = threading.Lock()
        self._count = 0

    def fileno(self) -> int:
        return self._far.fileno()

    def pending(self) -> int:
        return self._count

    def fill(self) -> None:
        """Do nothing: there is nothing to read ahead, since the count is in memory."""

    def flush(self) -> bool:
        return True

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
    """The outcome of one request, passed to each callback exactly once.

    A callback runs in the thread that sets the outcome, or in the one that adds it later. No lock is needed: the flag
    is set before the callbacks are taken, a callback is added before the flag is read, and `list.pop` is atomic.
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
        """Return the value or raise the exception of a finished request. Kazoo calls it only in callbacks."""
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
