"""One connection to one bookie: many requests in flight, each with a deadline.

What is sent in one turn of the event loop leaves in one write. Answers come in any order; one that comes after its
request was given up is dropped. When the connection ends, what was not answered is UNANSWERED, or NOT_SENT if it never
left: a bookie may have carried out, or may still carry out, whatever reached it.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Self, cast

from hedwig.errors import ProtocolError
from hub.ledgers.bookkeeper.codec import AnswerDecoder, encode_request
from hub.ledgers.bookkeeper.outcomes import Outcome
from hub.ledgers.bookkeeper.requests import Answer, Done, Request

__all__ = ["BYTES_IN_FLIGHT_MAX", "REQUESTS_IN_FLIGHT_MAX", "Connection"]

REQUESTS_IN_FLIGHT_MAX: Final = 8192
"""A bookie refuses more than 10,000 for one of its threads."""

BYTES_IN_FLIGHT_MAX: Final = 64 << 20
"""How many bytes of requests that are not answered may have been sent; one request may always be."""

_WRITE_BUFFER_BYTES: Final = 1 << 20
_SWEEP_S: Final = 0.05
_SILENCE_S: Final = 1.0
"""A connection on which a request expired, and nothing at all came since it was sent, for at least so long, is dead."""


class _Call:
    __slots__ = ("deadline", "done", "sent_at", "size")

    def __init__(self, size: int, deadline: float, done: Done) -> None:
        self.size = size
        self.deadline = deadline
        self.done = done
        self.sent_at: float | None = None


class Connection(asyncio.Protocol):
    """An open connection. It is over for good once `ended`; `on_end` hears of it."""

    def __init__(self, name: str, on_end: Callable[["Connection"], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._decoder = AnswerDecoder()
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, _Call] = {}
        self._by_timeout: dict[float, deque[int]] = {}
        """For each timeout in use the transactions in the order of their deadlines."""
        self._sweep: asyncio.TimerHandle | None = None
        self._bytes = 0
        self._transaction = 0
        self._out: dict[int, bytes] = {}
        self._paused = False
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
        frame = encode_request(transaction, request)
        if self._is_full(len(frame)):
            why = f"{len(self._calls)} requests with {self._bytes} bytes are in flight"
            self._soon(done, Answer(outcome=Outcome.BUSY, why=why))
            return
        self._transaction = transaction
        self._calls[transaction] = _Call(len(frame), self._loop.time() + timeout_s, done)
        self._by_timeout.setdefault(timeout_s, deque()).append(transaction)
        self._bytes += len(frame)
        if self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out[transaction] = frame

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
        for transaction, answer in answers:
            call = self._take(transaction)
            if call is not None:
                call.done(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"the connection ended ({exc or 'closed by the bookie'})")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    # Inside.

    def _soon(self, done: Done, answer: Answer) -> None:
        self._loop.call_soon(done, answer)

    def _is_full(self, size: int) -> bool:
        count = len(self._calls)
        return count > 0 and (count >= REQUESTS_IN_FLIGHT_MAX or self._bytes + size > BYTES_IN_FLIGHT_MAX)

    def _flush(self) -> None:
        if self._paused or self._transport is None or not self._out:
            return
        now = self._loop.time()
        out, self._out = self._out, {}
        for transaction in out:
            self._calls[transaction].sent_at = now
        self._transport.write(b"".join(out.values()))

    def _take(self, transaction: int) -> _Call | None:
        call = self._calls.pop(transaction, None)
        if call is not None:
            self._out.pop(transaction, None)
            self._bytes -= call.size
        return call

    def _expire(self) -> None:
        """Give up what is past its deadline, and the connection too if nothing at all came since it was sent."""
        self._sweep = None
        now = self._loop.time()
        silent = False
        for timeout_s, queue in list(self._by_timeout.items()):
            while queue and (queue[0] not in self._calls or self._calls[queue[0]].deadline <= now):
                call = self._take(queue.popleft())
                if call is not None:
                    silent = silent or (
                        call.sent_at is not None and now - max(call.sent_at, self._heard_at) >= _SILENCE_S
                    )
                    call.done(_unanswered(call, f"{self._name} did not answer within {timeout_s:g} s"))
            if not queue:
                del self._by_timeout[timeout_s]
        if silent:
            self._end("the bookie has been silent for too long")
        elif self._by_timeout and self._sweep is None:
            self._sweep = self._loop.call_later(_SWEEP_S, self._expire)

    def _end(self, why: str) -> None:
        if self.ended is not None:
            return
        self.ended = f"{self._name}: {why}"
        if self._transport is not None:
            self._transport.abort()
        if self._sweep is not None:
            self._sweep.cancel()
        self._on_end(self)
        self._by_timeout.clear()
        for transaction in list(self._calls):
            call = self._take(transaction)
            if call is not None:
                self._soon(call.done, _unanswered(call, self.ended))


def _unanswered(call: _Call, why: str) -> Answer:
    outcome = Outcome.NOT_SENT if call.sent_at is None else Outcome.UNANSWERED
    return Answer(outcome=outcome, why=why)
