"""A channel: one connection of a client, with what it waits for and what is served on it."""

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Final, Protocol, cast

from hedwig.errors import HedwigError, NotResponsibleForTopicError, RemoteProtocolError
from hedwig.hub.connections.answer_gate import AnswerGate, AnswerTurns
from hedwig.hub.connections.fair_reading import FairReading
from hedwig.hub.connections.unfinished_frames import UnfinishedFrames
from hedwig.hub.connections.unsent import Unsent
from hedwig.hub.options.options import HubOptions
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    Answer,
    Event,
    EventKind,
    FrameDecoder,
    Request,
    decode_request,
    encode_frame,
    encode_published,
    encode_response,
)

if TYPE_CHECKING:
    from hedwig.hub.topics.topic import Subscription

__all__ = ["Channel", "ChannelOwner"]

_log = logging.getLogger(__name__)

_PROBE_AFTER_S: Final = 60
_PROBE_EVERY_S: Final = 15
_PROBES: Final = 4
"""A peer that is silent for a minute is probed; one whose machine has vanished is given up a minute later."""
_TOLD_MAX: Final = 4096
"""How many subscriptions of a channel others may take over before it is closed."""
_CLOSE_S: Final = 5.0
"""How long a peer may take to read what was sent to it before its connection was closed."""
_TO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Hedwig hub's port for its clients. HTTP is for its admin endpoint: admin_port, 4081 by default.\n"
)
"""What somebody gets who takes a hub for an HTTP server."""
_FRAME_BYTES_MAX: Final = 1 << 30
"""No limit of ours on what we send: a stored message was within the limits when it came."""


class Waiter(Protocol):
    """What is told to go on once the channel has room for deliveries."""

    def go_on(self) -> None: ...


class ChannelOwner(Protocol):
    """Who is told what happens on a channel, and has what channels share."""

    @property
    def unsent(self) -> Unsent:
        """What counts the bytes that channels have to send."""
        ...

    @property
    def answer_turns(self) -> AnswerTurns:
        """What the gates of channels have turns at."""
        ...

    @property
    def reading(self) -> FairReading:
        """What shares the time for requests among the channels."""
        ...

    @property
    def frames(self) -> UnfinishedFrames:
        """What is held of requests that are not complete, or not begun, of all channels."""
        ...

    def admit(self, channel: "Channel") -> bool:
        """Take note of a new connection; return whether it may stay, so that `gone` will tell of its end."""
        ...

    def opened(self, channel: "Channel") -> None:
        """Take note of a new channel: requests may come."""
        ...

    def heard(self, channel: "Channel") -> None:
        """Take note of the first request on a channel."""
        ...

    def handle(self, channel: "Channel", request: Request, size: int) -> None:
        """Carry out a request; every one but CONSUME gets its answer once, through the channel."""
        ...

    def answered(self, size: int) -> None:
        """Take note that a request of `size` bytes is over."""
        ...

    def may_answer(self) -> bool:
        """Say whether what was to be sent may still be sent: not by a hub that others may believe dead."""
        ...

    def ended(self, channel: "Channel") -> None:
        """Take note that nothing more comes or goes on the channel."""
        ...

    def gone(self, channel: "Channel") -> None:
        """Take note that the connection is closed, and what was sent before its end is on its way."""
        ...


class Channel(asyncio.Protocol):
    """Cuts what arrives into requests, and collects what is sent in one turn of the event loop into one write.

    Deliveries wait while `is_full`. Requests wait, unread, while too many are unanswered, or while the client does not
    read the answers: so neither side can fill the hub's memory.

    The transport is given more only after its socket has taken all that it had. So what the socket has not taken is
    known, and most of it is here, where it can be held back yet.
    """

    # With more than thirty attributes, objects share no keys any more: each access takes longer, and each channel more.
    __slots__ = (
        "_abort",
        "_answer_bytes",
        "_blocked",
        "_bodies",
        "_bytes",
        "_connection",
        "_counted",
        "_decoder",
        "_flushing",
        "_gate",
        "_is_behind",
        "_is_holding",
        "_is_mute",
        "_is_parting",
        "_is_paused",
        "_is_silent",
        "_left_answer_bytes",
        "_left_bytes",
        "_loop",
        "_options",
        "_out",
        "_own_bytes",
        "_owner",
        "_told",
        "_transport",
        "_unanswered",
        "_unanswered_bytes",
        "_unsent",
        "_waiting",
        "had_s",
        "is_closed",
        "peer",
        "subscriptions",
    )

    def __init__(self, owner: ChannelOwner, options: HubOptions, loop: asyncio.AbstractEventLoop) -> None:
        self.peer = "?"
        self._connection: socket.socket | None = None
        """The connection before its TLS handshake is over."""
        self.subscriptions: dict[tuple[Topic, SubscriberId], Subscription] = {}
        """What is attached to this channel."""
        self.is_closed = False
        self.had_s = 0.0
        self._owner = owner
        self._options = options
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(options.frame_bytes_max)
        self._bodies: list[bytes] = []
        """The requests that were read and are not begun, the last one first."""
        self._is_behind = False
        """Whether there are such that wait for a later turn of the loop; meanwhile nothing is read."""
        self._is_silent = True
        self._is_holding = False
        """Whether there are requests that are not complete, or not begun, and they are counted."""
        self._unsent = owner.unsent
        self._own_bytes = owner.unsent.own_bytes
        self._out: list[bytes] = []
        self._bytes = 0
        """What is to be sent and the socket has not taken, here and in the transport."""
        self._answer_bytes = 0
        """The part of it that is answers, roughly."""
        self._left_bytes = self._left_answer_bytes = 0
        """What of both the socket left in the transport."""
        self._counted = 0, 0
        """Both as `Unsent` counts them: nothing of what goes out at the end of this turn."""
        self._flushing = False
        self._blocked = False
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._is_paused = False
        self._is_parting = False
        """Whether the channel ends once nothing is unanswered."""
        self._waiting: dict[Waiter, None] = {}
        self._abort: asyncio.TimerHandle | None = None
        self._told: set[int] | None = None
        """Hashes of the pairs that have had an event. Names would take more, and two of one hash do no harm."""
        self._gate: AnswerGate | None = None
        self._is_mute = False

    # ------------------------------------------------------------------------------------------- the connection

    def accepted(self, connection: socket.socket) -> bool:
        """Take note of a connection whose TLS handshake is to come; return whether it may stay."""
        try:
            self.peer = _peer_of(connection.getpeername())
        except OSError:
            return False  # It is over already.
        self._connection = connection
        return self._owner.admit(self)

    @property
    def is_made(self) -> bool:
        """Whether the connection was ever ready for requests."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Tell of each write that is not taken at once, and when it is. One byte: zero has TLS tell of every write.
        self._transport.set_write_buffer_limits(high=1)
        if self._connection is not None:
            self._connection = None
        else:
            self.peer = _peer_of(transport.get_extra_info("peername"))
            self.is_closed = not self._owner.admit(self)
        if self.is_closed:
            self._transport.abort()
            return
        self._owner.opened(self)
        _probe(transport.get_extra_info("socket"))

    def abort(self) -> None:
        """End the connection at once; what was sent may not arrive."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()  # `connection_lost` does what remains.
        elif self._connection is not None:
            with contextlib.suppress(OSError):  # It may have ended already.
                self._connection.shutdown(socket.SHUT_RDWR)

    def data_received(self, data: bytes) -> None:
        if self.is_closed:
            return
        try:
            bodies = self._decoder.receive(data)
        except RemoteProtocolError:
            bodies = []  # It stays refused, which is looked at behind what came before.
        bodies.reverse()
        if bodies and (self._is_silent or self._is_holding):
            self._complete()
        if self._is_behind:
            self._bodies = bodies + self._bodies
        elif bodies or self._decoder.refusal is not None:
            self._bodies = bodies
            if not self._owner.reading.begin(self):
                self._is_behind = True
                if self._transport is not None and not self.is_closed:
                    self._transport.pause_reading()
        if self._is_holding or self._is_behind or self._decoder.held_bytes:
            self._count_held()

    def _complete(self) -> None:
        """Take note that a request has arrived in full."""
        if self._is_silent:
            self._is_silent = False
            self._owner.heard(self)
        if self._is_holding:
            self._owner.frames.over(self)

    def begin_next(self) -> bool:
        """Begin the next request that was read; return whether there is another."""
        bodies = self._bodies
        try:
            if bodies and not self.is_closed:
                body = bodies.pop()
                self._owner.handle(self, decode_request(body), len(body))
                if bodies:
                    return True
            if self._decoder.refusal is not None and not self.is_closed:
                raise RemoteProtocolError(self._decoder.refusal)
        except RemoteProtocolError as exc:
            self._end_badly(exc)
        except BaseException:
            if self._transport is not None:
                self._transport.abort()  # As transports do themselves where a protocol fails at what it is given.
            raise
        bodies.clear()
        if self._is_behind:
            self._caught_up()
        return False

    def _caught_up(self) -> None:
        self._is_behind = False
        self._count_held()
        self._resume()
        self._part_if_done()

    def _count_held(self) -> None:
        """Count what is held of requests that are not complete, or not begun."""
        if self.is_closed:
            return
        held = self._decoder.held_bytes + sum(map(len, self._bodies))
        self._is_holding = held > 0
        if held:
            self._owner.frames.grow(self, held, is_read=not (self._is_paused or self._is_behind))
        else:
            self._owner.frames.over(self)

    def _drop_held(self) -> None:
        """Keep nothing of requests that are not complete, or not begun."""
        self._bodies.clear()
        if self._is_holding:
            self._is_holding = False
            self._owner.frames.over(self)
            self._decoder.drop()

    def _end_badly(self, error: RemoteProtocolError) -> None:
        """End the channel of a client that does what none may."""
        _log.warning("%s: closing the connection: %s", self.peer, error)
        if self._decoder.is_http_request and self._transport is not None and not self.is_closed:
            self._transport.write(_TO_HTTP)
        self.close()

    def eof_received(self) -> bool:
        if not self._decoder.is_between_frames:
            _log.info("%s: the connection ended inside a frame", self.peer)
        while self._bodies and self.begin_next():
            pass
        # Not left to the transport, which would wait for a client that ended its half and does not read the other.
        self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._abort is not None:
            self._abort.cancel()  # Or it would keep this channel in memory meanwhile.
        self._out.clear()
        self._leave(0, 0)
        self._waiting.clear()
        self._drop_held()
        self._let_answers_go_on()
        self._owner.ended(self)
        self._owner.gone(self)

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._unsent.note_taken(self)
        self._bytes -= self._left_bytes
        self._answer_bytes -= self._left_answer_bytes
        self._left_bytes = self._left_answer_bytes = 0
        self._write_out()
        if not self._blocked:
            self._leave(0, 0)
        self._read_on()
        self._let_answers_go_on()
        self._let_cursors_go_on()

    def close(self) -> None:
        """End the channel after what was sent; its subscriptions are detached at once."""
        if self.is_closed:
            return
        self._write_out()
        if self.is_closed:  # What was to be sent could not be any more.
            return
        self.is_closed = True
        if self._abort is not None:
            self._abort.cancel()
        transport = self._transport
        if transport is not None:
            transport.close()
            self._abort = self._loop.call_later(_CLOSE_S, transport.abort)
        self._drop_held()
        self._let_answers_go_on()
        self._owner.ended(self)

    def mute(self) -> None:
        """Send nothing any more but refusals: whatever else was to be sent may be another hub's to say.

        A connection that does not take what it was given ends here and now: that cannot be taken back in another way.
        """
        if self._is_mute or self.is_closed:
            return
        self._is_mute = True
        self._out.clear()
        self._leave(self._left_bytes, self._left_answer_bytes)
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()

    def cut_off(self) -> None:
        """End the connection here and now: others need the memory of the answers that its client does not take."""
        _log.warning(
            "%s: closing the connection: it has not taken its answers for longest, and all connections together have "
            "left more than half of %d bytes of answers",
            self.peer,
            self._options.unsent_bytes_max,
        )
        self._out.clear()
        self._leave(0, 0)
        self.abort()

    def part(self) -> None:
        """End the channel once all that was read on it is answered; what takes too long is left without an answer."""
        if not (self._unanswered or self._bodies):
            self.close()
        elif not self.is_closed and not self._is_parting:
            self._is_parting = True
            self._abort = self._loop.call_later(_CLOSE_S, self.close)

    # ------------------------------------------------------------------------------------------------ requests

    def begin(self, size: int) -> None:
        """Count a request that will be answered."""
        self._unanswered += 1
        self._unanswered_bytes += size
        options = self._options
        if self._unanswered >= options.channel_requests_max or self._unanswered_bytes >= options.channel_bytes_max:
            self._pause()

    @property
    def unanswered(self) -> tuple[int, int]:
        """How many requests are not answered, and their bytes."""
        return self._unanswered, self._unanswered_bytes

    def _end(self, size: int, body: bytes, *, is_refusal: bool = False) -> None:
        if is_refusal or not self._is_mute:
            self._owe(body)
        self.end_unanswered(size)

    def end_unanswered(self, size: int) -> None:
        """Take note that a request of `size` bytes, which `begin` counted, is over and gets no answer."""
        self._unanswered -= 1
        self._unanswered_bytes -= size
        self._owner.answered(size)
        if self._is_paused:
            self._read_on()
        if self._is_parting:
            self._part_if_done()

    def _part_if_done(self) -> None:
        if self._is_parting and not (self._unanswered or self._bodies):
            self._loop.call_soon(self.close)  # The last answer itself is still to be sent.

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None and not self.is_closed:
            self._is_paused = True
            self._transport.pause_reading()
            if self._is_holding:
                self._owner.frames.pause(self)

    def _read_on(self) -> None:
        """Read again, once half of what stopped it has gone."""
        options = self._options
        if (
            self._is_paused
            and 2 * self._unanswered <= options.channel_requests_max
            and 2 * self._unanswered_bytes <= options.channel_bytes_max
            and not (self._blocked and self._answer_bytes > self._unsent.share)
        ):
            self._is_paused = False
            self._resume()

    def _resume(self) -> None:
        if not (self._is_paused or self._is_behind or self.is_closed) and self._transport is not None:
            self._transport.resume_reading()
            if self._is_holding:
                self._owner.frames.go_on(self)

    @property
    def gate(self) -> AnswerGate:
        """The gate for requests whose answers may be large. Nobody waits there once the channel is closed."""
        if self._gate is None:
            self._gate = AnswerGate(self._owner.answer_turns, self._has_room_for_answers)
        return self._gate

    def _has_room_for_answers(self, size: int) -> bool:
        return self.is_closed or not (self.is_full or self._answer_bytes + size > self._unsent.share)

    def _let_answers_go_on(self) -> None:
        if self._gate is not None:
            self._gate.go_on()

    def answer(self, size: int, answer: Answer) -> None:
        """Answer a request of `size` bytes."""
        self._end(size, encode_response(answer))

    def answer_encoded(self, size: int, body: bytes) -> None:
        """Answer a request of `size` bytes with a body that is encoded."""
        self._end(size, body)

    def answer_published(self, size: int, txn_id: int, local: int) -> None:
        """Answer a publish: the message is at the position `local`."""
        self._end(size, encode_published(txn_id, local))

    def answer_error(self, size: int, txn_id: int, error: HedwigError) -> None:
        """Answer a request with what became of it."""
        status = error.status if error.definite else StatusCode.UNCERTAIN_STATE
        text = error.text if isinstance(error, NotResponsibleForTopicError) else str(error)
        self._end(size, encode_response(Answer(txn_id=txn_id, status=status, text=text)), is_refusal=True)

    # ------------------------------------------------------------------------------------------------- sending

    def deliver(self, body: bytes) -> None:
        """Send a delivery, together with whatever else is sent in this turn."""
        if not self._is_mute:
            self._put(body)

    def _owe(self, body: bytes) -> None:
        """Send an answer, or an event, whether the client takes it or not."""
        if self.is_closed:
            return
        self._answer_bytes += len(body)
        self._put(body)
        if self._blocked and self._answer_bytes > self._unsent.share:
            self._pause()

    def _put(self, body: bytes) -> None:
        if self.is_closed:
            return
        frame = encode_frame(body, _FRAME_BYTES_MAX)
        self._out.append(frame)
        self._bytes += len(frame)
        if self._blocked:
            self._count()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_soon)

    def tell_forced_closed(self, topic: Topic, subscriber: SubscriberId) -> None:
        """Tell the client that another took its subscription over.

        A client that gets a SUCCESS for the same pair on the same channel afterwards closes the channel that it uses
        (a defect of the original), so `was_told` says not to. A channel with more such pairs than are kept is closed:
        both clients recover from that by themselves.
        """
        if self._told is None:
            self._told = set()
        self._told.add(hash((topic, subscriber)))
        if not self._is_mute:
            kind = EventKind.SUBSCRIPTION_FORCED_CLOSED
            self._owe(encode_response(Event(topic=topic, subscriber=subscriber, kind=kind)))
        if len(self._told) > _TOLD_MAX:
            _log.info("%s: closing the connection: it lost more than %d subscriptions", self.peer, _TOLD_MAX)
            self.close()

    def was_told(self, topic: Topic, subscriber: SubscriberId) -> bool:
        """Say whether this channel has had an event for the pair."""
        return self._told is not None and hash((topic, subscriber)) in self._told

    @property
    def is_full(self) -> bool:
        """Whether deliveries must wait."""
        return self._bytes >= self._own_bytes and self._bytes >= self._unsent.share

    @property
    def room(self) -> int:
        """How many bytes of deliveries are worth reading now."""
        return max(1, self._unsent.share - self._bytes)

    @property
    def untaken_bytes(self) -> int:
        """How many bytes the transport has that its socket has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def wait_for_room(self, cursor: Waiter) -> None:
        """Have `cursor` go on once there is room."""
        self._waiting[cursor] = None

    def forget_waiting(self, cursor: Waiter) -> None:
        self._waiting.pop(cursor, None)

    def _flush_soon(self) -> None:
        self._flushing = False
        if self._blocked:
            return  # It goes on once the socket has taken what it was given.
        self._write_out()
        self._let_answers_go_on()
        if self._waiting:
            self._let_cursors_go_on()

    def _write_out(self) -> None:
        """Give the transport all that is to be sent."""
        if self._out and self._transport is not None and not self.is_closed:
            if not (self._is_mute or self._owner.may_answer()):
                self.mute()
                return
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._transport.write(data)
            if self._blocked:
                left = self._transport.get_write_buffer_size()
                self._leave(left, min(left, self._answer_bytes))
            else:
                self._bytes = self._answer_bytes = 0

    def _leave(self, size: int, answer_size: int) -> None:
        """Take note that the socket has left so many bytes, some of them of answers, and nothing else is to be sent."""
        self._bytes = self._left_bytes = size
        self._answer_bytes = self._left_answer_bytes = answer_size
        self._count()

    def _count(self) -> None:
        """Have `Unsent` count what this channel has now."""
        unsent, (size, answer_size) = self._unsent, self._counted
        self._counted = self._bytes, self._answer_bytes
        unsent.bytes += self._bytes - size
        unsent.answer_bytes += self._answer_bytes - answer_size
        if self._answer_bytes:
            unsent.note_waiting(self)
            unsent.relieve()
        else:
            unsent.note_taken(self)

    def _let_cursors_go_on(self) -> None:
        while self._waiting and not self.is_full and not self.is_closed:
            cursor = next(iter(self._waiting))
            del self._waiting[cursor]
            cursor.go_on()


def _peer_of(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)


def _probe(connection: socket.socket) -> None:
    """Have the kernel find out that a client's machine vanished: else its subscriptions would stay attached for ever.

    No TCP_USER_TIMEOUT: it would also end connections of clients that live, and do not read for so long.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": _PROBE_AFTER_S, "TCP_KEEPINTVL": _PROBE_EVERY_S, "TCP_KEEPCNT": _PROBES}
    for name, value in settings.items():
        if hasattr(socket, name):  # Not every system has each.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
