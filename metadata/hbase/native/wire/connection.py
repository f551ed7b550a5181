"""One connection to one service of one server: many calls in flight, each with a deadline of its own.

What is sent in one turn of the event loop leaves in one write. Replies come in any order; one that comes after its call
was given up is dropped. A call ends in exactly one way:

    bytes                 the response message
    ServerFailure         the server's exception
    NotAppliedError       it never left
    OutcomeUnknownError   it left, and was not answered in its time or before the connection ended
    AbortedError          this side closed the connection
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self, TypeAlias, cast

from hedwig.clock import Deadline
from hedwig.errors import ProtocolError
from hedwig.metadata.hbase.native.wire.codec import FATAL_CALL, Reply, ReplyDecoder, encode_call, greeting
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError

__all__ = ["CALLS_MAX", "Connection", "Done"]

CALLS_MAX: Final = 256
"""A server at its defaults takes about 930 calls in flight from all of its clients together."""

_BYTES_MAX: Final = 16 << 20
"""How many bytes of calls that are not answered yet may have left; one call may always leave."""

_WRITE_BUFFER_BYTES: Final = 1 << 20
_CALL_NUMBERS: Final = 1 << 31
_EARLY_S: Final = 0.001
"""How much too early a call may expire: an event loop's timers may be no more exact than that."""

_NEVER: Final = float("inf")
_SILENCE_S: Final = 2.0
"""A connection on which a call expired, and nothing at all came since it was sent, for at least so long, is dead."""

_TIMEOUT_MIN_MS: Final = 20
"""HBase takes shorter ones for this."""

_GREETING: Final = 0

Done: TypeAlias = Callable[[bytes | Exception], None]
"""Takes what came of a call."""

WholeDone: TypeAlias = Callable[[Reply | Exception], None]
"""Takes what came of a call, with the cells behind the message."""


class _Call:
    __slots__ = ("done", "expires_at", "is_whole", "method", "sent_at", "size")

    def __init__(self, method: str, size: int, done: Callable[[Any], None], expires_at: float, is_whole: bool) -> None:
        self.method = method
        self.size = size
        self.done = done
        self.expires_at = expires_at
        self.is_whole = is_whole
        self.sent_at: float | None = None


class Connection(asyncio.Protocol):
    """An open connection. It is over for good once `ended`; `on_end` hears of it.

    On one `in_blocks` the server may put cells behind the messages of its replies: for it to read whole tables only.
    """

    def __init__(
        self,
        server: Server,
        service: str,
        user: str,
        on_end: Callable[["Connection"], None],
        *,
        in_blocks: bool = False,
    ) -> None:
        self._server = server
        self._service = service
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._decoder = ReplyDecoder()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _Call] = {}
        self._bytes = 0
        self._number = 0
        self._out: dict[int, bytes] = {_GREETING: greeting(service, user, in_blocks=in_blocks)}
        self._leaving = True
        self._paused = False
        self._heard_at = 0.0
        # One timer for all calls: one for each would cost more than all else that a call takes here.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.ended: str | None = None
        """Why it is over, once it is."""
        self.refusal: ServerFailure | None = None
        """What the server said when it refused the connection, if it did both."""
        self.was_dropped = False
        """Whether the server ended it before it had said anything."""

    @classmethod
    async def open(
        cls,
        server: Server,
        service: str,
        user: str,
        on_end: Callable[["Connection"], None],
        *,
        in_blocks: bool = False,
    ) -> Self:
        """Connect. Raises OSError - nobody listens there."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: cls(server, service, user, on_end, in_blocks=in_blocks), server.host, server.port
        )
        return connection

    def __str__(self) -> str:
        return f"{self._service} at {self._server}"

    @property
    def calls_in_flight(self) -> int:
        """How many calls were neither answered nor given up."""
        return len(self._calls)

    async def ask(self, method: str, request: bytes, deadline: Deadline) -> bytes:
        """Return the response message of one call, which waits its turn while too many are in flight."""
        return (await self.ask_whole(method, request, deadline)).body

    async def ask_whole(self, method: str, request: bytes, deadline: Deadline) -> Reply:
        """Return the reply to one call with the cells behind its message, as `ask`."""
        await self._room(len(request), deadline)
        answer: asyncio.Future[Reply] = self._loop.create_future()

        def done(result: Reply | Exception) -> None:
            if not answer.done():
                if isinstance(result, Reply):
                    answer.set_result(result)
                else:
                    answer.set_exception(result)
                    answer.exception()  # Whoever is cancelled at this moment does not look at it.

        number = self._send(method, request, deadline.remaining_s(), done, is_whole=True)
        try:
            return await answer
        finally:
            self.forget(number)

    def send(self, method: str, request: bytes, timeout_s: float, done: Done, *, held: bool = False) -> int:
        """Send a call, whatever else is in flight, and return its number; `done` is called once, and never from here.

        It leaves at the end of this turn of the event loop; if `held`, with the next `flush`, which must follow.

        Raises: LocalProtocolError - it is too large; NotAppliedError, AbortedError - the connection is over.
        """
        return self._send(method, request, timeout_s, done, held=held)

    def _send(
        self,
        method: str,
        request: bytes,
        timeout_s: float,
        done: Done | WholeDone,
        *,
        held: bool = False,
        is_whole: bool = False,
    ) -> int:
        if self.ended is not None:
            raise NotAppliedError(f"{self}: {self.ended}")
        number = self._next_number()
        timeout_ms = max(_TIMEOUT_MIN_MS, int(timeout_s * 950))
        frame = encode_call(number, method, request, timeout_ms)
        self._number = number
        expires_at = self._loop.time() + timeout_s
        self._calls[number] = _Call(method, len(frame), done, expires_at, is_whole)
        self._bytes += len(frame)
        if expires_at < self._timer_at:
            self._watch(expires_at)
        self._out[number] = frame
        if not held and not self._leaving:
            self._leaving = True
            self._loop.call_soon(self._leave)
        return number

    def flush(self) -> None:
        """Let what was sent leave now."""
        if self._paused or self._transport is None or not self._out:
            return
        now = self._loop.time()
        out, self._out = self._out, {}
        for number in out:
            if number in self._calls:
                self._calls[number].sent_at = now
        self._transport.write(b"".join(out.values()))

    def forget(self, number: int) -> None:
        """Give up a call, if it is not over yet; its reply will be dropped, and `done` is not called."""
        if self._take(number) is not None:
            self._admit()

    def close(self) -> None:
        """End the connection from this side; calls in flight are aborted."""
        self._end("it was closed", aborted=True)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        handle: socket.socket | None = transport.get_extra_info("socket")
        if handle is not None:
            # Nothing ends an idle connection but this, should the other machine vanish.
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._loop.call_soon(self._leave)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            replies = self._decoder.receive(data)
        except ProtocolError as exc:
            self._end(str(exc))
            return
        for reply in replies:
            self._answer(reply)
        self._admit()

    def connection_lost(self, exc: Exception | None) -> None:
        self.was_dropped = self.ended is None and not self._heard_at
        self._end(f"the connection ended ({exc or 'closed by the server'})")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.flush()

    # Inside.

    def _next_number(self) -> int:
        number = self._number
        while True:
            number = number + 1 if number + 1 < _CALL_NUMBERS else 1
            if number not in self._calls:
                return number

    def _leave(self) -> None:
        self._leaving = False
        self.flush()

    def _take(self, number: int) -> _Call | None:
        call = self._calls.pop(number, None)
        if call is not None:
            self._out.pop(number, None)
            self._bytes -= call.size
        return call

    def _answer(self, reply: Reply) -> None:
        if reply.call == FATAL_CALL:
            self.refusal = reply.failure
            self._end(f"the server refuses the connection: {reply.failure}")
            return
        call = self._take(reply.call)
        if call is not None:
            call.done(reply.failure or (reply if call.is_whole else reply.body))

    def _watch(self, at: float) -> None:
        """Look at the deadlines at `at`, when the first may have passed, and not before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """Give up the calls whose time is over. The one that the timer was set for may have been answered long ago."""
        self._timer, self._timer_at = None, _NEVER
        now = self._loop.time()
        silent = False
        for number in [number for number, call in self._calls.items() if call.expires_at <= now + _EARLY_S]:
            call = self._take(number)
            if call is not None:
                call.done(self._unanswered(call, "no answer in time"))
                silent |= call.sent_at is not None and now - max(call.sent_at, self._heard_at) >= _SILENCE_S
        if silent:
            self._end("it has been silent for too long")
            return
        first = min((call.expires_at for call in self._calls.values()), default=_NEVER)
        if first < self._timer_at:
            self._watch(first)
        self._admit()

    def _unanswered(self, call: _Call, why: str) -> Exception:
        if call.sent_at is None:
            return NotAppliedError(f"{call.method} did not leave for {self}: {why}")
        return OutcomeUnknownError(f"{call.method} of {self}: {why}")

    def _end(self, why: str, *, aborted: bool = False) -> None:
        if self.ended is not None:
            return
        self.ended = why
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for number in list(self._calls):
            call = self._take(number)
            assert call is not None, "it was there a moment ago"
            sent = call.sent_at is not None
            call.done(AbortedError("the store was closed", sent=sent) if aborted else self._unanswered(call, why))
        self._out.clear()
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_result(None)  # It finds the connection at its end.
        self._on_end(self)

    async def _room(self, size: int, deadline: Deadline) -> None:
        """Wait until a call of `size` bytes may leave. Raises NotAppliedError - that took too long."""
        if not self._waiting and self._has_room(size):
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await turn
        except BaseException as exc:
            with suppress(ValueError):
                self._waiting.remove((size, turn))
            self._admit()
            if isinstance(exc, TimeoutError):
                raise NotAppliedError(f"{self} has too much to do") from exc
            raise

    def _has_room(self, size: int) -> bool:
        return not self._calls or (len(self._calls) < CALLS_MAX and self._bytes + size <= _BYTES_MAX)

    def _admit(self) -> None:
        calls, held = len(self._calls), self._bytes
        while self._waiting:
            size, turn = self._waiting[0]
            if calls and (calls >= CALLS_MAX or held + size > _BYTES_MAX):
                return
            self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                calls += 1
                held += size
