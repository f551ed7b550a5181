"""One connection to one bookie: many requests in flight, each with a deadline.

What is sent in one turn of the event loop leaves in one write. Answers come in any order; one that comes after its
request was given up is dropped. When the connection ends, what was not answered is UNANSWERED, or NOT_SENT if it never
left: a bookie may have carried out, or may still carry out, whatever reached it.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, Self, cast

from hedwig.errors import ProtocolError
from hedwig.hub.ledgers.bookkeeper.wire.add_messages import FIRST_TRANSACTION
from hedwig.hub.ledgers.bookkeeper.wire.codec import AnswerDecoder, encode_parts
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import Outcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import Answer, Done, Request

__all__ = ["BYTES_IN_FLIGHT_MAX", "REQUESTS_IN_FLIGHT_MAX", "Connection"]

REQUESTS_IN_FLIGHT_MAX: Final = 8192
"""A bookie refuses more than 10,000 for one of its threads."""

BYTES_IN_FLIGHT_MAX: Final = 64 << 20
"""How many bytes of requests that are not answered may have been sent; one request may always be."""

_WRITE_BUFFER_BYTES: Final = 1 << 20
_EARLY_S: Final = 0.001
"""How much too early a request may expire: an event loop's timers may be no more exact than that."""

_NEVER: Final = float("inf")
_SILENCE_S: Final = 1.0
"""A connection on which a request expired, and nothing at all came since it was sent, for at least so long, is dead."""


class _Call(NamedTuple):
    done: Done
    size: int
    expires_at: float
    asked_at: float


class Connection(asyncio.Protocol):
    """An open connection. It is over for good once `ended`; `on_end` hears of it."""

    def __init__(self, name: str, on_end: Callable[["Connection"], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._decoder = AnswerDecoder()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _Call] = {}
        # One timer for all requests: one for each would cost as much as all else that a request takes here.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._bytes = 0
        self._transaction = FIRST_TRANSACTION
        self._sent = FIRST_TRANSACTION
        """The last transaction that has left; they leave in order."""
        self._out: list[tuple[int, bytes, bytes]] = []
        self._paused = False
        self._resumed_at = 0.0
        self._heard_at = 0.0
        self.ended: str | None = None
        """Why it is over, once it is."""

    @classmethod
    async def open(cls, name: str, host: str, port: int, on_end: Callable[["Connection"], None]) -> Self:
        """Connect. Raises OSError - nobody listens there."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(name, on_end), host, port)
        return connection

    @property
    def in_flight(self) -> int:
        """How many requests were neither answered nor given up."""
        return len(self._calls)

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        """Send a request; see `Bookies.send`."""
        if self.ended is not None:
            self._soon(done, Answer(outcome=Outcome.NOT_SENT, why=self.ended))
            return
        transaction = self._transaction + 1
        head, tail = encode_parts(transaction, request)
        size = len(head) + len(tail)
        count = len(self._calls)
        if count and (count >= REQUESTS_IN_FLIGHT_MAX or self._bytes + size > BYTES_IN_FLIGHT_MAX):
            why = f"{count} requests with {self._bytes} bytes are in flight"
            self._soon(done, Answer(outcome=Outcome.BUSY, why=why))
            return
        self._transaction = transaction
        now = self._loop.time()
        expires_at = now + timeout_s
        self._calls[transaction] = _Call(done, size, expires_at, now)
        self._bytes += size
        if expires_at < self._timer_at:
            self._watch(expires_at)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append((transaction, head, tail))

    def close(self) -> None:
        """End the connection from this side."""
        self._end("this side closed the connection")

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        handle: socket.socket | None = transport.get_extra_info("socket")
        if handle is not None:
            # Nothing ends an idle connection but this, should the other machine vanish.
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            answers = self._decoder.receive(data)
        except ProtocolError as exc:
            self._end(str(exc))
            return
        calls = self._calls
        for transaction, answer in answers:
            call = calls.pop(transaction, None)
            if call is not None:
                self._bytes -= call[1]
                call[0](answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection ended ({exc or 'closed by the bookie'})")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._resumed_at = self._loop.time()
        self._flush()

    # Inside.

    def _soon(self, done: Done, answer: Answer) -> None:
        self._loop.call_soon(done, answer)

    def _flush(self) -> None:
        if self._paused or self._transport is None or not self._out:
            return
        parts: list[bytes] = []
        calls = self._calls
        for transaction, head, tail in self._out:
            # What was given up meanwhile stays here, as was said of it.
            if transaction in calls:
                parts.append(head)
                parts.append(tail)
        self._sent = self._out[-1][0]
        self._out.clear()
        self._transport.write(b"".join(parts))

    def _take(self, transaction: int) -> _Call:
        call = self._calls.pop(transaction)
        self._bytes -= call.size
        return call

    def _watch(self, at: float) -> None:
        """Look at the deadlines at `at`, when the first may have passed, and not before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        """Give up what is past its deadline, and the connection too if nothing at all came since it was sent.

        What the timer was set for may have been answered long ago: it is set anew for the first that is left.
        """
        self._timer, self._timer_at = None, _NEVER
        now = self._loop.time()
        silent = False
        for transaction in [number for number, call in self._calls.items() if call.expires_at <= now + _EARLY_S]:
            call = self._take(transaction)
            left_at = max(call.asked_at, self._resumed_at)
            silent |= transaction <= self._sent and now - max(left_at, self._heard_at) >= _SILENCE_S
            call.done(self._unanswered(transaction, f"{self._name} did not answer within {now - call.asked_at:.3g} s"))
        if silent:
            self._end("the bookie has been silent for too long")
            return
        first = min((call.expires_at for call in self._calls.values()), default=_NEVER)
        if first < self._timer_at and self.ended is None:
            self._watch(first)

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = f"{self._name}: {why}"
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        self._on_end(self)
        for transaction in list(self._calls):
            self._soon(self._take(transaction).done, self._unanswered(transaction, self.ended))
        self._out.clear()

    def _unanswered(self, transaction: int, why: str) -> Answer:
        outcome = Outcome.UNANSWERED if transaction <= self._sent else Outcome.NOT_SENT
        return Answer(outcome=outcome, why=why)
