"""One connection to one server: many numbered calls in flight, each with a deadline of its own.

All frames of one turn of the event loop leave in one write. Answers arrive in any order. An answer that arrives after
its call was given up is dropped. Each call ends once: with its answer, or with the outcome that a subclass returns if
there is none. The subclass distinguishes two cases: a call that never left surely had no effect, and any other may have
had one.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from hedwig.errors import ProtocolError

__all__ = ["Bounds", "Call", "Decoder", "RpcConnection"]

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

_WRITE_BUFFER_BYTES: Final = 1 << 20
_EARLY_S: Final = 0.001
"""How much too early a call may expire, since the timers of an event loop may not be more exact."""

_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one connection, which its client must respect.

    Calls have numbers from `first_number` to before `numbers_end`.
    """

    calls_max: int
    """The most calls in flight."""

    bytes_max: int
    """The most bytes of unfinished calls that have left. One call may always leave."""

    silence_s: float
    """A connection is dead if a call on it expires and nothing arrived for N seconds after the call was sent."""

    first_number: int
    numbers_end: int


class Decoder(Protocol[A_co]):
    """Turns the bytes of a connection into answers, however the network cut them. The memory it holds is bounded."""

    def receive(self, data: bytes) -> Sequence[tuple[int, A_co]]:
        """Return the answers that are complete now, each with the number of its call.

        Raises: ProtocolError - the bytes break the protocol; nothing can be read after them.
        """
        ...


class Call(NamedTuple, Generic[A]):
    """A call in flight. `label` is its name in errors."""

    done: Callable[[A], None]
    size: int
    asked_at: float
    expires_at: float
    label: str


class RpcConnection(asyncio.Protocol, Generic[A]):
    """An open connection. Once `ended` is set, it is over for good, and `on_end` is called.

    A subclass puts its requests into frames, and decides the outcome of an unanswered call. `peer` is the name of the
    other end in errors. `greeting` is sent first.
    """

    def __init__(
        self,
        decoder: Decoder[A],
        bounds: Bounds,
        on_end: Callable[[Any], None],
        *,
        peer: str = "server",
        greeting: bytes = b"",
    ) -> None:
        self._decoder = decoder
        self._bounds = bounds
        self._on_end = on_end
        self._peer = peer
        self._greeting = greeting
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Call[A]] = {}
        self._bytes = 0
        self._number = bounds.first_number
        """The number of the next call."""
        self._out: dict[int, tuple[bytes, ...]] = {}
        """The frames of the calls that have not left."""
        self._leaving = False
        self._paused = False
        self._resumed_at = 0.0
        self._heard_at = 0.0
        # One timer for all calls, since one per call would double the cost of a call here.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self.ended: str | None = None
        """Why the connection is over, once it is."""

    @property
    def calls_in_flight(self) -> int:
        """Return the number of calls that were neither answered nor given up."""
        return len(self._calls)

    def flush(self) -> None:
        """Write the waiting frames now."""
        if self._paused or self._transport is None or not self._out:
            return
        out, self._out = self._out, {}
        self._transport.write(b"".join(chain.from_iterable(out.values())))

    def forget(self, number: int) -> None:
        """Give up a call, if it is not over yet. Its answer will be dropped.

        `done` is not called, unless the connection has ended: then the event loop calls it soon.
        """
        if number in self._calls:
            self._take(number)
            self._freed()

    # Methods that a subclass overrides or calls.

    def _unanswered(self, call: Call[A], *, has_left: bool) -> A:
        """Return the outcome of a call that expired, or that was in flight when the connection `ended`."""
        raise NotImplementedError

    def _unclaimed(self, number: int, answer: A) -> None:
        """Handle an answer that no call waits for. Mostly it is late."""

    def _freed(self) -> None:
        """React to the end of calls, after which there may be room for others."""

    def _submit(
        self,
        frame: tuple[bytes, ...],
        size: int,
        timeout_s: float,
        done: Callable[[A], None],
        label: str = "",
        held: bool = False,
    ) -> None:
        """Send the frame made with the next number. `done` is called once, and never from here.

        The frame leaves at the end of this turn of the event loop. If `held`, it leaves with the next `flush`, which
        the caller must call.
        """
        number = self._number
        now = self._loop.time()
        expires_at = now + timeout_s
        self._calls[number] = Call(done, size, now, expires_at, label)
        self._bytes += size
        if expires_at < self._timer_at:
            self._watch(expires_at)
        self._out[number] = frame
        self._number = number = number + 1
        if number in self._calls or number >= self._bounds.numbers_end:
            self._skip_numbers()
        if not held and not self._leaving:
            self._leaving = True
            self._loop.call_soon(self._leave)

    def _end(self, why: str) -> None:
        """End the connection. After `on_end`, the event loop soon completes its calls with their outcomes."""
        if self.ended is not None:
            return
        self.ended = why
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._on_end(self)
        for number in list(self._calls):
            call, has_left = self._take(number)
            self._loop.call_soon(call.done, self._unanswered(call, has_left=has_left))
        self._freed()

    # Methods that the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        handle: socket.socket | None = transport.get_extra_info("socket")
        if handle is not None:
            # If the other machine vanishes, only this ends an idle connection.
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._greeting:
            self._transport.write(self._greeting)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            answers = self._decoder.receive(data)
        except ProtocolError as exc:
            self._end(str(exc))
            return
        # A faulty other end may answer a call before its frame has left. That frame must not leave afterwards.
        calls = self._calls
        for number, answer in answers:
            call = calls.pop(number, None)
            if call is None:
                self._unclaimed(number, answer)
                continue
            self._bytes -= call.size
            if self._out:
                self._out.pop(number, None)
            call.done(answer)
        self._freed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection ended ({exc or f'closed by the {self._peer}'})")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._resumed_at = self._loop.time()
        self.flush()

    # Inside.

    def _leave(self) -> None:
        self._leaving = False
        self.flush()

    def _skip_numbers(self) -> None:
        """Advance to the next number that is not in flight, and wrap around at the end."""
        while self._number in self._calls or self._number >= self._bounds.numbers_end:
            self._number = self._number + 1 if self._number < self._bounds.numbers_end else self._bounds.first_number

    def _take(self, number: int) -> tuple[Call[A], bool]:
        """Remove a call from those in flight; return it, and whether it has left."""
        call = self._calls.pop(number)
        self._bytes -= call.size
        return call, self._out.pop(number, None) is None

    def _watch(self, at: float) -> None:
        """Set the timer to check the deadlines at `at`, when the first may have passed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """Give up the calls whose time is over, and end the connection if it is dead.

        The call of this timer may have been answered long ago. So the timer is set again for the earliest deadline of
        the remaining calls.
        """
        self._timer, self._timer_at = None, _NEVER
        now = self._loop.time()
        silent = False
        for number in [number for number, call in self._calls.items() if call.expires_at <= now + _EARLY_S]:
            if number not in self._calls:
                continue  # The `done` of another call has ended the connection or this call.
            call, has_left = self._take(number)
            left_at = max(call.asked_at, self._resumed_at)
            silent |= has_left and now - max(left_at, self._heard_at) >= self._bounds.silence_s
            call.done(self._unanswered(call, has_left=has_left))
        if silent:
            self._end(f"the {self._peer} has been silent for too long")
            return
        first = min((call.expires_at for call in self._calls.values()), default=_NEVER)
        if first < self._timer_at and self.ended is None:
            self._watch(first)
        self._freed()
