"""One connection of the raw driver, made for speed: it sends prepared frames, and counts answers without parsing them.

Tests use `wire_channel` instead, since they need every response decoded, in order, and on request.
"""

import asyncio
from typing import Final, cast

from hedwig.benchmarks.drivers.hub.raw_frames import (
    DELIVERY_PREFIX,
    LENGTH,
    MARK,
    NUMBER,
    PREFIX_BYTES,
    SLOT_BASE,
    SUCCESS_PREFIX,
    consume_frame,
    slot_bytes,
    slot_of,
)
from hedwig.benchmarks.load.load import Observer
from hedwig.wire import Answer, Delivery, decode_response

__all__ = ["RawChannel"]

_BODY_AT_MOST: Final = 64
"""The mark in a delivery stands within this many bytes; tags and lengths come before it, in any order."""
_LOST_PAUSE_S: Final = 0.1


class RawChannel(asyncio.Protocol):
    """Sends prepared frames, all of one turn of the event loop in one write, and counts the answers.

    Each request takes a slot, whose number its answer carries. Of a delivery the channel reads only the operation's
    number. If messages are to be consumed, the last bytes of a delivery tell its subscription.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, observer: Observer, *, consume_every: int) -> None:
        self.observer = observer
        self.closed = asyncio.Event()
        self._loop = loop
        self._consume_every = consume_every
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._flushing = False
        self._is_closing = False
        self._rest = b""
        self._numbers: list[int] = []
        self._then: dict[int, bytes] = {}
        self._expected: dict[int, str] = {}
        self._slot_bytes: list[bytes] = []
        self._free: list[int] = []
        self._mark_at: dict[int, int] = {}
        self._received: dict[bytes, int] = {}
        self._tail_bytes = 0

    # ------------------------------------------------------------------------------------------------------- sending

    def publish(self, number: int, head: bytes, tail: bytes) -> None:
        """Send a message that carries the number of its operation."""
        self._out += (head, NUMBER.pack(number), tail, self._take_slot(number))
        self._flush_soon()

    def request(self, number: int, frame: bytes, *, then: bytes | None = None, expected: str | None = None) -> None:
        """Send a request, and once it is answered the second one, `then`; the last answer is the operation's.

        `expected` is the status that counts as success, in place of SUCCESS.
        """
        slot = self._take_slot(number)
        if expected is not None:
            self._expected[number] = expected
        if then is not None:
            self._then[number] = then
        self._out += (frame, slot)
        self._flush_soon()

    def _take_slot(self, number: int) -> bytes:
        if self._free:
            slot = self._free.pop()
            self._numbers[slot] = number
        else:
            slot = len(self._numbers)
            self._numbers.append(number)
            self._slot_bytes.append(slot_bytes(slot))
        return self._slot_bytes[slot]

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            if self.closed.is_set():
                self._loop.call_later(_LOST_PAUSE_S, self._flush)  # A closed loop must not spin on a hub that is gone.
            else:
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        data = b"".join(self._out)
        self._out.clear()
        if self.closed.is_set():
            self._fail_all("connection lost")
        elif self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Disconnect."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.close()

    # ----------------------------------------------------------------------------------------------------- receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, _: Exception | None) -> None:
        self.closed.set()
        if not self._is_closing:
            self.observer.lost()
        self._fail_all("connection lost")

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        start, end = 0, len(data)
        while end - start >= LENGTH.size:
            body = start + LENGTH.size
            stop = body + int.from_bytes(data[start:body], "big")
            if stop > end:
                break
            if data.startswith(SUCCESS_PREFIX, body):
                slot = slot_of(data, body + PREFIX_BYTES)
                if slot >= 0:
                    self._answer(slot, None)
                elif data.startswith(DELIVERY_PREFIX, body):
                    self._deliver(data, body, stop)
            else:
                self._read_error(data[body:stop])
            start = stop
        self._rest = data[start:]

    def _answer(self, slot: int, error: str | None) -> None:
        number = self._numbers[slot]
        if number < 0:
            return
        self._numbers[slot] = -1
        self._free.append(slot)
        if self._expected and (expected := self._expected.pop(number, None)) is not None:
            error = None if error == expected else error or f"not {expected}"
        then = self._then.pop(number, None) if self._then else None
        if then is not None and error is None:
            self.request(number, then)
        else:
            self.observer.answered(number, error)

    def _deliver(self, data: bytes, body: int, stop: int) -> None:
        size = stop - body
        mark_at = self._mark_at.get(size)
        if mark_at is None:
            mark_at = data.find(MARK, body, body + _BODY_AT_MOST) - body
            self._mark_at[size] = mark_at
        if not data.startswith(MARK, body + mark_at):
            mark_at = data.find(MARK, body, stop) - body  # Length fields can differ in size within equal totals.
            if mark_at < 0:
                return
        (number,) = NUMBER.unpack_from(data, body + mark_at + len(MARK))
        self.observer.delivered(number)
        if self._consume_every:
            self._count(data, body, stop)

    def _count(self, data: bytes, body: int, stop: int) -> None:
        if not self._tail_bytes:
            delivery = _delivery(data[body:stop])
            self._tail_bytes = len(delivery.topic) + len(delivery.subscriber) + 4
        tail = data[stop - self._tail_bytes : stop]
        received = self._received.get(tail, 0) + 1
        self._received[tail] = received
        if received % self._consume_every == 0:
            delivery = _delivery(data[body:stop])
            assert delivery.message.seq_id is not None
            self._out.append(consume_frame(delivery.topic, delivery.subscriber, delivery.message.seq_id))
            self._flush_soon()

    def _read_error(self, body: bytes) -> None:
        response = decode_response(body)
        if isinstance(response, Answer):
            slot = response.txn_id - SLOT_BASE
            if 0 <= slot < len(self._numbers):
                self._answer(slot, response.status.name)

    def _fail_all(self, error: str) -> None:
        for slot, number in enumerate(self._numbers):
            if number >= 0:
                self._answer(slot, error)


def _delivery(body: bytes) -> Delivery:
    delivery = decode_response(body)
    assert isinstance(delivery, Delivery)
    return delivery
