"""A channel: one connection of a client, with its requests, its answers and its deliveries."""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from hedwig.errors import (
    HedwigError,
    NotAuthenticatedError,
    NotPermittedError,
    NotResponsibleForTopicError,
    QuotaExceededError,
    RemoteProtocolError,
)
from hedwig.hub.access.caller import Caller
from hedwig.hub.connections.answer_gate import AnswerGate, AnswerTurns
from hedwig.hub.connections.fair_reading import FairReading
from hedwig.hub.connections.slots import address_of, peer_of
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
    RefusalKind,
    Request,
    decode_request,
    encode_frame,
    encode_published,
    encode_response,
)

if TYPE_CHECKING:
    from hedwig.access.scram import ServerExchange
    from hedwig.hub.topics.topic import Subscription

__all__ = ["Channel", "ChannelOwner"]

_log = logging.getLogger(__name__)

_PROBE_AFTER_S: Final = 60
_PROBE_EVERY_S: Final = 15
_PROBES: Final = 4
"""The kernel probes a peer that is silent for a minute, and gives up a vanished machine a minute later."""
_HELD_BACK_MAX: Final = 1024
"""In how many topics of a channel the messages behind one that was refused are refused too."""
_FORCED_CLOSED_MAX: Final = 4096
"""How many subscriptions of a channel others may take over before the hub closes it."""
_CLOSE_S: Final = 5.0
"""How long a peer may take to read what the hub sent before it closed the connection."""
_TO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a Hedwig hub's port for its clients. HTTP is for its admin endpoint: admin_port, 4081 by default.\n"
)
"""The answer to a client that takes the hub for an HTTP server."""
_REFUSALS: Final[Mapping[type[HedwigError], RefusalKind]] = {
    NotPermittedError: RefusalKind.NOT_PERMITTED,
    NotAuthenticatedError: RefusalKind.NOT_AUTHENTICATED,
    QuotaExceededError: RefusalKind.QUOTA_EXCEEDED,
}
_RETRY_MS_MAX: Final = (1 << 32) - 1
_FRAME_BYTES_MAX: Final = 1 << 30
"""The hub has no limit of its own on frames that it sends: a stored message was within the limits on arrival."""


class Waiter(Protocol):
    """A cursor that goes on once the channel has room for deliveries."""

    def go_on(self) -> None: ...


class ChannelOwner(Protocol):
    """The owner of channels: it receives their events, and holds what they share."""

    @property
    def unsent(self) -> Unsent:
        """The counter of the bytes that channels have to send."""
        ...

    @property
    def answer_turns(self) -> AnswerTurns:
        """The turns of the gates of all channels."""
        ...

    @property
    def reading(self) -> FairReading:
        """Shares the time for requests among the channels."""
        ...

    @property
    def frames(self) -> UnfinishedFrames:
        """The bytes of requests of all channels that are incomplete, or not begun."""
        ...

    def admit(self, channel: "Channel") -> bool:
        """Record a new connection; return whether it may stay. If so, `gone` reports its end."""
        ...

    def opened(self, channel: "Channel") -> None:
        """Record a new channel, on which requests may now arrive."""
        ...

    def heard(self, channel: "Channel") -> None:
        """Record the first request on a channel."""
        ...

    def handle(self, channel: "Channel", request: Request, size: int) -> None:
        """Run a request, and answer it once through the channel. A CONSUME has no answer unless it is refused."""
        ...

    def redirect(self, listener: str, error: NotResponsibleForTopicError) -> HedwigError:
        """Return what to answer a client that came by a named listener, instead of a redirect to a hub."""
        ...

    def answered(self, size: int) -> None:
        """Record that a request of `size` bytes is over."""
        ...

    def may_answer(self) -> bool:
        """Say whether the hub may still send; it may not while other hubs may believe it dead."""
        ...

    def ended(self, channel: "Channel") -> None:
        """Record that no more requests or answers pass on the channel."""
        ...

    def gone(self, channel: "Channel") -> None:
        """Record that the connection is closed, and that the data sent before is on its way."""
        ...


class Channel(asyncio.Protocol):
    """Splits received data into requests, and collects the output of one turn of the event loop into one write.

    Deliveries wait while `is_full`. Requests wait unread while too many are unanswered, or while the client does not
    read the answers. So neither side can fill the hub's memory.

    The channel gives the transport more only after the socket has taken all before. So the channel knows what the
    socket has not taken. Most of that is still here, where the channel can hold it back.
    """

    # With over thirty attributes, objects no longer share keys: each access takes longer, and each channel more memory.
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
        "_forced_closed",
        "_gate",
        "_has_taken_leave",
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
        "_transport",
        "_unanswered",
        "_unanswered_bytes",
        "_unsent",
        "_waiting",
        "caller",
        "counted_as",
        "end_point",
        "ends_at",
        "exchange",
        "had_s",
        "heard_at",
        "held_back",
        "is_closed",
        "listener",
        "peer",
        "pinged_as",
        "publisher",
        "silence_s",
        "subscriptions",
        "why_over",
    )

    def __init__(
        self, owner: ChannelOwner, options: HubOptions, loop: asyncio.AbstractEventLoop, listener: str = ""
    ) -> None:
        self.peer = "?"
        self.listener = listener
        """The name of the listener by which the client has come; empty for the ports of the hub itself."""
        self._connection: socket.socket | None = None
        """The connection until its TLS handshake is over."""
        self.subscriptions: dict[tuple[Topic, SubscriberId], Subscription] = {}
        """The subscriptions that are attached to this channel."""
        self.caller: Caller | None = None
        """Who sends the requests of this channel; None if nobody may, or nobody is asked."""
        self.counted_as: tuple[str, ...] = ()
        """Whose connection this is, as limits count it."""
        self.why_over: QuotaExceededError | None = None
        """Why this connection is one too many; None if it is not."""
        self.exchange: ServerExchange | None = None
        """The login that is under way."""
        self.end_point: bytes | None = None
        """What the hub's end of the TLS connection is known by, if clients can log in; None without TLS."""
        self.ends_at = math.inf
        """When the certificate or token of the client ends, in seconds since 1970; infinite if it has shown none."""
        self.publisher: bytes | None = None
        """Who publishes the messages that come on this channel and name no publisher."""
        self.pinged_as: int | None = None
        """The id of the last Ping that the client has sent."""
        self.held_back: dict[int, None] | None = None
        """The topics in which a message was refused: those that were sent behind it must not be stored before it.

        They are hashes, since names are long. Of two topics with one hash, a message may be refused once without need.
        """
        self.heard_at = 0.0
        """When bytes of the client came last, in the time of the event loop."""
        self.silence_s = math.inf
        """A client that is silent for longer is gone, as it has said itself."""
        self.is_closed = False
        self.had_s = 0.0
        self._owner = owner
        self._options = options
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder(options.frame_bytes_max)
        self._bodies: list[bytes] = []
        """The requests that are read and not begun, the last one first."""
        self._is_behind = False
        """Whether such requests wait for a later turn of the loop. Meanwhile the channel reads nothing."""
        self._is_silent = True
        self._is_holding = False
        """Whether the channel has counted requests that are incomplete, or not begun."""
        self._unsent = owner.unsent
        self._own_bytes = owner.unsent.own_bytes
        self._out: list[bytes] = []
        self._bytes = 0
        """The bytes to send that the socket has not taken, here and in the transport."""
        self._answer_bytes = 0
        """The approximate bytes of answers among them."""
        self._left_bytes = self._left_answer_bytes = 0
        """The parts of both that the socket left in the transport."""
        self._counted = 0, 0
        """Both as `Unsent` counts them, without what goes out at the end of this turn."""
        self._flushing = False
        self._blocked = False
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._is_paused = False
        self._is_parting = False
        """Whether the channel ends once all requests are answered."""
        self._waiting: dict[Waiter, None] = {}
        self._abort: asyncio.TimerHandle | None = None
        self._forced_closed: set[int] | None = None
        """The hashes of the pairs that had an event. Names would take more memory; a hash collision does no harm."""
        self._gate: AnswerGate | None = None
        self._is_mute = False
        self._has_taken_leave = False

    # ------------------------------------------------------------------------------------------- the connection

    def accepted(self, connection: socket.socket) -> bool:
        """Record a connection before its TLS handshake; return whether it may stay."""
        try:
            self.peer = peer_of(connection.getpeername())
        except OSError:
            return False  # The connection is over already.
        self._connection = connection
        return self._owner.admit(self)

    @property
    def is_made(self) -> bool:
        """Whether the connection was ever ready for requests."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Report each write that the socket does not take at once, and when it has. With zero instead of one byte, TLS
        # reports every write.
        self._transport.set_write_buffer_limits(high=1)
        if self._connection is not None:
            self._connection = None
        else:
            self.peer = peer_of(transport.get_extra_info("peername"))
            self.is_closed = not self._owner.admit(self)
        if self.is_closed:
            self._transport.abort()
            return
        if (certificate := self.certificate) is not None:
            self.ends_at = ssl.cert_time_to_seconds(certificate["notAfter"])
        self._owner.opened(self)
        _probe(transport.get_extra_info("socket"))

    @property
    def peer_host(self) -> str:
        """The IP address of the client."""
        return self.peer.rpartition(":")[0]

    @property
    def address(self) -> str | bytes:
        """From where the client comes, as limits count it: of IPv6, a network."""
        return address_of(self.peer)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The certificate of the client, which the hub has checked; None if it has shown none."""
        return self._transport.get_extra_info("peercert") or None if self._transport is not None else None

    @property
    def tls_context(self) -> ssl.SSLContext | None:
        """The settings with which the TLS connection was made; None without TLS."""
        secure = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return None if secure is None else cast(ssl.SSLObject, secure).context

    def limit_frames(self, frame_bytes_max: int | None) -> None:
        """Take no larger frames from now on; None: as large as the options say."""
        self._decoder.frame_bytes_max = frame_bytes_max or self._options.frame_bytes_max

    @property
    def certificate_der(self) -> bytes | None:
        """That certificate, encoded."""
        secure = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return None if secure is None else cast(ssl.SSLObject, secure).getpeercert(binary_form=True)

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
        self.heard_at = self._loop.time()
        try:
            bodies = self._decoder.receive(data)
        except RemoteProtocolError:
            bodies = []  # The decoder keeps its refusal, which `begin_next` handles after the earlier requests.
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
        """Record that a request has arrived in full."""
        if self._is_silent:
            self._is_silent = False
            self._owner.heard(self)
        if self._is_holding:
            self._owner.frames.over(self)

    def begin_next(self) -> bool:
        """Begin the next request that is read; return whether there is another."""
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
                self._transport.abort()  # As transports do themselves if a protocol raises.
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
        """Count the bytes of requests that are incomplete, or not begun."""
        if self.is_closed:
            return
        held = self._decoder.held_bytes + sum(map(len, self._bodies))
        self._is_holding = held > 0
        if held:
            self._owner.frames.grow(self, held, is_read=not (self._is_paused or self._is_behind))
        else:
            self._owner.frames.over(self)

    def _drop_held(self) -> None:
        """Drop the requests that are incomplete, or not begun."""
        self._bodies.clear()
        if self._is_holding:
            self._is_holding = False
            self._owner.frames.over(self)
            self._decoder.drop()

    def _end_badly(self, error: RemoteProtocolError) -> None:
        """End the channel of a client that violates the protocol."""
        _log.warning("%s: closing the connection: %s", self.peer, error)
        if self._decoder.is_http_request and self._transport is not None and not self.is_closed:
            self._transport.write(_TO_HTTP)
        self.close()

    def eof_received(self) -> bool:
        if not self._decoder.is_between_frames:
            _log.info("%s: the connection ended inside a frame", self.peer)
        while self._bodies and self.begin_next():
            pass
        # The transport would wait for a client that has closed its half and does not read the other, so close here.
        self.close()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._abort is not None:
            self._abort.cancel()  # Else the timer would keep this channel in memory.
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
        """Close the connection once what was sent has left; detach its subscriptions at once."""
        if self.is_closed:
            return
        self._write_out()
        if self.is_closed:  # `_write_out` ended the channel, since the hub may not send any more.
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
        """Send only refusals from now on: another hub may own the topics that other output is about.

        If the socket has not taken all earlier output, the connection ends at once. That output cannot be taken back in
        any other way.
        """
        if self._is_mute or self.is_closed:
            return
        self._is_mute = True
        self._out.clear()
        self._leave(self._left_bytes, self._left_answer_bytes)
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()

    def cut_off(self) -> None:
        """End the connection at once: others need the memory of the answers that its client does not read."""
        _log.warning(
            "%s: closing the connection: it has not taken its answers for longest. All connections together have "
            "left more than half of %d bytes of answers",
            self.peer,
            self._options.unsent_bytes_max,
        )
        self._out.clear()
        self._leave(0, 0)
        self.abort()

    def part(self) -> None:
        """End the channel once all its requests are answered, or after `_CLOSE_S` without the missing answers."""
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

    def hold_back(self, topic: bytes) -> None:
        """Record that a message was refused. Of very many topics only the last ones are known."""
        if self.held_back is None:
            self.held_back = {}
        self.held_back[hash(topic)] = None
        if len(self.held_back) > _HELD_BACK_MAX:
            del self.held_back[next(iter(self.held_back))]

    def may_publish(self, topic: bytes, previous: int) -> bool:
        """Say whether a message may be stored; return False if the one before it, `previous`, was refused.

        Without `previous` the client has all answers, so it is its next one.
        """
        if previous:
            return self.held_back is None or hash(topic) not in self.held_back
        if self.held_back is not None:
            self.held_back.pop(hash(topic), None)
        return True

    @property
    def unanswered(self) -> tuple[int, int]:
        """The number of unanswered requests, and their bytes."""
        return self._unanswered, self._unanswered_bytes

    def _end(self, size: int, body: bytes, *, is_refusal: bool = False) -> None:
        if is_refusal or not self._is_mute:
            self._owe(body)
        self.end_unanswered(size)

    def end_unanswered(self, size: int) -> None:
        """Record that a request of `size` bytes, which `begin` counted, is over."""
        self._unanswered -= 1
        self._unanswered_bytes -= size
        self._owner.answered(size)
        if self._is_paused:
            self._read_on()
        if self._is_parting:
            self._part_if_done()

    def _part_if_done(self) -> None:
        if self._is_parting and not (self._unanswered or self._bodies):
            self._loop.call_soon(self.close)  # Later, because the last answer itself is not sent yet.

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None and not self.is_closed:
            self._is_paused = True
            self._transport.pause_reading()
            if self._is_holding:
                self._owner.frames.pause(self)

    def _read_on(self) -> None:
        """Read again, once at most half of the limit that stopped it is in use."""
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
            self.heard_at = self._loop.time()
            self._transport.resume_reading()
            if self._is_holding:
                self._owner.frames.go_on(self)

    @property
    def gate(self) -> AnswerGate:
        """The gate for requests whose answers may be large. No request waits there once the channel is closed."""
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
        """Answer a request of `size` bytes with an encoded body."""
        self._end(size, body)

    def answer_published(self, size: int, txn_id: int, local: int) -> None:
        """Answer a publish: the message is at the position `local`."""
        self._end(size, encode_published(txn_id, local))

    def answer_error(self, size: int, txn_id: int, error: HedwigError) -> None:
        """Answer a request of `size` bytes with `error`."""
        if self.listener and isinstance(error, NotResponsibleForTopicError):
            error = self._owner.redirect(self.listener, error)
        status = error.status if error.happened == "no" else StatusCode.UNCERTAIN_STATE
        text = error.text if isinstance(error, NotResponsibleForTopicError) else str(error)
        refusal = _REFUSALS.get(type(error))
        retry_ms = None
        if isinstance(error, QuotaExceededError) and error.retry_after_s is not None:
            retry_ms = min(math.ceil(1000 * error.retry_after_s), _RETRY_MS_MAX)
        answer = Answer(txn_id=txn_id, status=status, text=text, refusal=refusal, retry_after_ms=retry_ms)
        self._end(size, encode_response(answer), is_refusal=True)

    # ------------------------------------------------------------------------------------------------- sending

    def deliver(self, body: bytes) -> None:
        """Send a delivery, in one write with the other output of this turn."""
        if not self._is_mute:
            self._put(body)

    def _owe(self, body: bytes) -> None:
        """Send an answer or an event, whether the client reads it or not."""
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

    def tell(self, answer: Answer) -> None:
        """Send one more answer to a request that is answered already, and so not counted any more."""
        if not self._is_mute or answer.status is not StatusCode.SUCCESS:
            self._owe(encode_response(answer))

    def takes_leave(self) -> bool:
        """Tell a client that has sent a Ping that the hub ends, once; return whether it will close this channel.

        A client that does not read will not.
        """
        if self.pinged_as is None or self.is_closed:
            return False
        if not self._has_taken_leave:
            self._has_taken_leave = True
            text = "this hub ends"
            leave = RefusalKind.HUB_LEAVES
            self.tell(Answer(txn_id=self.pinged_as, status=StatusCode.SERVICE_DOWN, text=text, refusal=leave))
        return not self.untaken_bytes

    @property
    def is_silent_for_long(self) -> bool:
        """Whether the client is gone, as far as it has said how long it may be silent."""
        is_read = not (self._is_paused or self._is_behind)
        return is_read and self._loop.time() - self.heard_at > self.silence_s

    def tell_forced_closed(self, topic: Topic, subscriber: SubscriberId, why: str | None = None) -> None:
        """Send the client the event that another took its subscription over, or `why` it lost it.

        A client that gets a SUCCESS for the same pair on the same channel afterwards closes the channel that it uses.
        This is a defect of the original. `was_forced_closed` lets the hub avoid that. The hub closes a channel with
        more such pairs than it keeps. Both clients recover from that by themselves.
        """
        if self._forced_closed is None:
            self._forced_closed = set()
        self._forced_closed.add(hash((topic, subscriber)))
        if not self._is_mute:
            kind = EventKind.SUBSCRIPTION_FORCED_CLOSED
            self._owe(encode_response(Event(topic=topic, subscriber=subscriber, kind=kind, text=why)))
        if len(self._forced_closed) > _FORCED_CLOSED_MAX:
            _log.info("%s: closing the connection: it lost more than %d subscriptions", self.peer, _FORCED_CLOSED_MAX)
            self.close()

    def was_forced_closed(self, topic: Topic, subscriber: SubscriberId) -> bool:
        """Say whether this channel has had an event for the pair."""
        return self._forced_closed is not None and hash((topic, subscriber)) in self._forced_closed

    @property
    def is_full(self) -> bool:
        """Whether deliveries must wait."""
        return self._bytes >= self._own_bytes and self._bytes >= self._unsent.share

    @property
    def room(self) -> int:
        """How many bytes of deliveries a cursor should read now."""
        return max(1, self._unsent.share - self._bytes)

    @property
    def untaken_bytes(self) -> int:
        """How many bytes in the transport its socket has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def wait_for_room(self, cursor: Waiter) -> None:
        """Call `go_on` of `cursor` once there is room."""
        self._waiting[cursor] = None

    def forget_waiting(self, cursor: Waiter) -> None:
        self._waiting.pop(cursor, None)

    def _flush_soon(self) -> None:
        self._flushing = False
        if self._blocked:
            return  # `resume_writing` goes on once the socket has taken the earlier output.
        self._write_out()
        self._let_answers_go_on()
        if self._waiting:
            self._let_cursors_go_on()

    def _write_out(self) -> None:
        """Give the transport all output."""
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
        """Record that the socket left `size` bytes, `answer_size` of them answers, and that no other output waits."""
        self._bytes = self._left_bytes = size
        self._answer_bytes = self._left_answer_bytes = answer_size
        self._count()

    def _count(self) -> None:
        """Update the counts of `Unsent` with the bytes of this channel."""
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


def _probe(connection: socket.socket) -> None:
    """Make the kernel detect that a client's machine has vanished; else its subscriptions would stay attached for ever.

    TCP_USER_TIMEOUT is not set, because it would also end connections of live clients that do not read for that long.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": _PROBE_AFTER_S, "TCP_KEEPINTVL": _PROBE_EVERY_S, "TCP_KEEPCNT": _PROBES}
    for name, value in settings.items():
        if hasattr(socket, name):  # Some systems lack some of them.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
