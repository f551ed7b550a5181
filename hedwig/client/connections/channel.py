"""A channel: one connection to one hub, with the requests that wait for their answers."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Final, Self, TypeAlias

from hedwig.client.connections.login import log_in
from hedwig.client.credentials import Credentials
from hedwig.client.options import ClientOptions, HubAddress
from hedwig.errors import (
    CouldNotConnectError,
    HedwigError,
    HubNotTrustedError,
    RemoteProtocolError,
    ServiceDownError,
    UncertainAnswerError,
)
from hedwig.model import MessageSeqId
from hedwig.reasons import reason_of
from hedwig.status import StatusCode
from hedwig.wire import (
    PING_TOPIC,
    Action,
    Answer,
    Delivery,
    Event,
    FrameDecoder,
    Ping,
    Promises,
    RefusalKind,
    Request,
    decode_response,
    encode_frame,
    encode_request,
    read_published,
    split_delivery,
)

__all__ = ["Channel"]

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 256 * 1024
_FRAMES_AT_ONCE: Final = 16

_PING_ID: Final = 0
"""No other request has this id: clients count from 1."""
_LOGIN_ID: Final = (1 << 63) - 1
"""Neither has this one. A renewal may be under way beside a ping."""
_RENEW_AT: Final = 0.8
"""The part of the time after which a login is renewed that counts for so long."""
_RENEW_MIN_S: Final = 0.2


OnAnswer: TypeAlias = Callable[[Answer | UncertainAnswerError | int], None]
"""What a channel calls with the answer to a request: see `Channel.send`."""


class Channel:
    """One connection. When it ends, for any reason, all waiting requests fail, and `on_end` is called once.

    `on_news` receives deliveries and events in the order in which they arrive. Before it, `on_delivery` gets the two
    parts of a body that seems to be a delivery (see `split_delivery`), and returns whether it has taken it.

    A hub that ends says so. Then `on_leave` is called, and nothing should be sent any more: the channel ends once no
    request waits for an answer. So the hub has read all requests.
    """

    def __init__(
        self,
        address: HubAddress,
        options: ClientOptions,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_news: Callable[[Delivery | Event], None],
        on_end: Callable[["Channel"], None],
        on_delivery: Callable[[bytes, bytes], bool] | None,
        on_leave: Callable[["Channel"], None],
    ) -> None:
        self.address = address
        self._options = options
        self._reader = reader
        self._writer = writer
        self._on_news = on_news
        self._on_end = on_end
        self._on_delivery = on_delivery
        self._on_leave = on_leave
        self._ping = Request(topic=PING_TOPIC, txn_id=_PING_ID, action=Ping())
        self.promises = Promises()
        """What the hub has promised, if it was asked."""
        self._waiting: dict[int, OnAnswer] = {}
        self._readable = asyncio.Event()
        self._readable.set()
        self._end: Exception | None = None
        self._is_closed_here = False
        self._hub_leaves = False
        self._unsent: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        """When bytes of the hub came last, in the time of the event loop."""
        self.sent_at = self.heard_at
        """When bytes were sent last."""
        self._renewing: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._receive())

    @classmethod
    async def open(
        cls,
        address: HubAddress,
        options: ClientOptions,
        on_news: Callable[[Delivery | Event], None],
        on_end: Callable[["Channel"], None],
        *,
        on_delivery: Callable[[bytes, bytes], bool] | None = None,
        on_leave: Callable[["Channel"], None] = lambda _: None,
        ping: Ping | None = None,
    ) -> Self:
        """Connect to a hub, and log in if the options have credentials.

        With a `ping`, send it, and wait until the hub has said what it promises.
        A system accepts connections for a hub that stands still or ends, and a request on one would have no outcome.

        Raises: CouldNotConnectError; HubNotTrustedError - the options ask for TLS, and the hub does not speak it, or
            its certificate is not valid; NotAuthenticatedError.
        """
        port = address.port if options.tls is None else address.ssl_port
        if port is None:
            raise HubNotTrustedError(f"the hub {address} has no TLS port")
        latest = asyncio.get_running_loop().time() + options.connect_timeout_s
        try:
            async with asyncio.timeout_at(latest):
                reader, writer = await asyncio.open_connection(
                    address.host,
                    port,
                    ssl=options.tls,
                    server_hostname=_host_name(address, options),
                    limit=_READ_BYTES,
                )
            _probe(writer.get_extra_info("socket"), options.keepalive_s)
        except (OSError, TimeoutError, UnicodeError) as exc:  # UnicodeError: the host cannot be a name.
            reason = reason_of(exc) or f"no answer within {options.connect_timeout_s:g} s"
            # A hub that ends amid the handshake is another matter: it may be back soon.
            is_refused = isinstance(exc, ssl.SSLError) and not isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError)
            error = HubNotTrustedError if is_refused else CouldNotConnectError
            raise error(f"cannot connect to the hub {address.host}:{port}: {reason}") from exc
        channel = cls(address, options, reader, writer, on_news, on_end, on_delivery, on_leave)
        if options.credentials is not None:
            async with channel._beginning():
                expires_s = await channel._log_in(options.credentials, latest)
            if expires_s is not None and channel.is_open:
                channel._renewing = asyncio.create_task(channel._renew(options.credentials, expires_s))
        if ping is not None:
            channel._ping = replace(channel._ping, action=ping)
            async with channel._beginning():
                answer = await channel._ask_first(_PING_ID, latest, ping)
                channel.promises = answer.promises or channel.promises
        return channel

    @property
    def is_open(self) -> bool:
        return self._end is None

    @property
    def is_lost(self) -> bool:
        """Say whether it has ended, and was not closed by this client."""
        return self._end is not None and not self._is_closed_here

    @property
    def is_paused(self) -> bool:
        return not self._readable.is_set()

    async def ask(
        self,
        request: Request,
        timeout_s: float,
        on_success: Callable[[], None] = lambda: None,
        on_place: Callable[[int], None] = lambda _: None,
    ) -> Answer:
        """Return the hub's answer, with any status.

        When the channel reads the answer SUCCESS, it calls `on_success` before it reads anything that follows. While
        the hub answers that the request waits in line, it calls `on_place`, and the wait has no end.

        Raises: CouldNotConnectError - the channel had ended, nothing was sent; UncertainAnswerError - it was sent, and
            the channel ended or the time passed before an answer; LocalProtocolError - it is too large.
        """
        arrived: asyncio.Future[Answer] = self._loop.create_future()

        def take(answer: Answer | UncertainAnswerError | int) -> None:
            if arrived.done():
                return
            if isinstance(answer, int):
                answer = Answer(txn_id=request.txn_id, published=MessageSeqId(answer))
            if isinstance(answer, UncertainAnswerError):
                arrived.set_exception(answer)
            elif answer.place is not None:
                if not timeout.expired():
                    timeout.reschedule(None)  # The heartbeat notices a hub that is gone.
                    on_place(answer.place)
            else:
                arrived.set_result(answer)
                if answer.status is StatusCode.SUCCESS:
                    on_success()

        try:
            async with asyncio.timeout(timeout_s) as timeout:
                self.send(request, take)
                await self._drain()
                return await arrived
        except TimeoutError as exc:
            raise self.unanswered(timeout_s) from exc
        finally:
            self.forget(request.txn_id)

    def send(self, request: Request, on_answer: OnAnswer) -> None:
        """Send a request, without waiting. `on_answer` is called once, unless `forget` is called before.

        It gets the hub's answer, with any status, or UncertainAnswerError when the channel ends before that. Of a
        PUBLISH that succeeds it may get the position alone. It must not raise. Answers that say that the request waits
        in line come before that.

        Raises: CouldNotConnectError - the channel has ended, nothing was sent; LocalProtocolError - it is too large.
        """
        self.send_encoded(encode_request(request), request.txn_id, on_answer)

    def send_encoded(self, body: bytes, txn_id: int, on_answer: OnAnswer) -> None:
        """Send a request as `send` does, from the body of its frame."""
        frame = encode_frame(body, self._options.send_frame_bytes_max)
        self._check_open()
        self._waiting[txn_id] = on_answer
        self._send(frame)

    def forget(self, txn_id: int) -> None:
        """Wait for the answer to a request no longer."""
        self._waiting.pop(txn_id, None)
        self._end_if_hub_leaves()

    def unanswered(self, waited_s: float) -> UncertainAnswerError:
        """Return the error of a request that was not answered in time."""
        # Rounded, since a little of the time for an answer passed before.
        return UncertainAnswerError(f"the hub {self.address} did not answer within {round(waited_s, 2):g} s")

    async def tell(self, request: Request) -> None:
        """Send a request that hubs do not answer.

        Raises: CouldNotConnectError - the channel has ended; UncertainAnswerError - the hub does not read.
        """
        self.tell_at_once(request)
        try:
            async with asyncio.timeout(self._options.answer_timeout_s):
                await self._drain()
        except TimeoutError as exc:
            raise UncertainAnswerError(f"the hub {self.address} does not read its requests") from exc

    def tell_at_once(self, request: Request) -> None:
        """Send a request that hubs do not answer, without waiting. Raises CouldNotConnectError."""
        frame = encode_frame(encode_request(request), self._options.send_frame_bytes_max)
        self._check_open()
        self._send(frame)

    def pause(self) -> None:
        """Stop reading, so that deliveries wait in the network and then in the hub."""
        self._readable.clear()

    def resume(self) -> None:
        """Continue to read."""
        if self.is_paused:
            self.heard_at = self._loop.time()
        self._readable.set()

    def ping(self) -> None:
        """Ask for a sign of life, and give one. Nothing waits for the answer."""
        if self._end is None:
            self.tell_at_once(self._ping)

    def end(self, reason: Exception) -> None:
        """End the channel at once, since its hub seems to be gone. Requests under way have no known outcome."""
        self._finish(reason)
        self._task.cancel()
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the channel. May be called twice, and from within `on_news` and `on_end`."""
        self._is_closed_here = self._is_closed_here or self._end is None
        self._finish(CouldNotConnectError(f"the channel to the hub {self.address} was closed"))
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                with contextlib.suppress(OSError):
                    await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()  # The hub reads no more bytes, so the unsent ones are dropped.

    def _check_open(self) -> None:
        if self._end is not None:
            raise CouldNotConnectError(f"the channel to the hub {self.address} has ended: {reason_of(self._end)}")

    def _send(self, frame: bytes) -> None:
        """Send a frame together with the others of this turn of the event loop, since system calls are expensive.

        But not with too many, so that the hub carries out some while this client makes the others.
        """
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(frame)
        if len(self._unsent) >= _FRAMES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        self.sent_at = self._loop.time()
        # The connection may have ended before the receiving side notices it. Then uvloop's transport raises an error on
        # a write, where asyncio's own drops the bytes.
        if unsent and not self._writer.is_closing():
            self._writer.write(b"".join(unsent))

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):  # The receiving side notices the end, and fails all waiting requests.
            await self._writer.drain()

    async def _receive(self) -> None:
        decoder = FrameDecoder(self._options.receive_frame_bytes_max)
        try:
            while data := await self._reader.read(_READ_BYTES):
                self.heard_at = self._loop.time()
                for body in decoder.receive(data):
                    if not self._readable.is_set():
                        await self._readable.wait()
                    self._handle(body)
                self._end_if_hub_leaves()
                if decoder.refusal is not None:
                    raise RemoteProtocolError(decoder.refusal)
            self._finish(ConnectionResetError("the hub closed the connection"))
        except (OSError, RemoteProtocolError) as exc:
            self._finish(exc)
        except Exception as exc:
            # A defect of ours. The waiting requests must fail nevertheless.
            _log.exception("the channel to the hub %s failed", self.address)
            self._finish(exc)

    def _handle(self, body: bytes) -> None:
        if (published := read_published(body)) is not None:
            if (on_answer := self._waiting.pop(published[0], None)) is not None:
                on_answer(published[1])
            return
        if self._on_delivery is not None and (parts := split_delivery(body)) is not None and self._on_delivery(*parts):
            return
        response = decode_response(body)
        if not isinstance(response, Answer):
            self._on_news(response)
            return
        if response.place is None:
            on_answer = self._waiting.pop(response.txn_id, None)
        else:
            on_answer = self._waiting.get(response.txn_id)
        if on_answer is not None:
            on_answer(response)
        elif response.refusal is RefusalKind.HUB_LEAVES:
            self._hub_leaves = True
            self._on_leave(self)
        elif response.txn_id != _PING_ID:
            _log.debug("dropped an answer of the hub %s: no request %s waits for it", self.address, response.txn_id)

    def _end_if_hub_leaves(self) -> None:
        if self._hub_leaves and not self._waiting:
            self._finish(ConnectionResetError("the hub ends"))

    async def _ask_first(self, txn_id: int, latest: float, action: Action) -> Answer:
        """Send a request about no topic. No other one of this id may be under way."""
        request = Request(topic=PING_TOPIC, txn_id=txn_id, action=action)
        return await self.ask(request, latest - self._loop.time())

    async def _log_in(self, credentials: Credentials, latest: float) -> float | None:
        secure = self._writer.get_extra_info("ssl_object")
        try:
            async with asyncio.timeout_at(latest):
                return await log_in(credentials, partial(self._ask_first, _LOGIN_ID, latest), secure)
        except TimeoutError as exc:
            raise CouldNotConnectError(f"no login with the hub {self.address} in time") from exc

    async def _renew(self, credentials: Credentials, expires_s: float) -> None:
        """Log in again and again before the last login ends to count. If that fails, the hub closes the connection."""
        ends_at = self._loop.time() + expires_s
        while self.is_open:
            await asyncio.sleep(max(_RENEW_MIN_S, _RENEW_AT * (ends_at - self._loop.time())))
            try:
                # So there is time for another attempt.
                left_s = max(_RENEW_MIN_S, (ends_at - self._loop.time()) / 2)
                expires_or_not_s = await self._log_in(credentials, self._loop.time() + left_s)
            except HedwigError as exc:
                _log.warning("the login with the hub %s cannot be renewed: %s", self.address, exc)
                continue
            if expires_or_not_s is None:
                return
            ends_at = self._loop.time() + expires_or_not_s

    @contextlib.asynccontextmanager
    async def _beginning(self) -> AsyncIterator[None]:
        """Ask first questions in the body. If they fail, the channel is closed, and was none."""
        try:
            yield
        except BaseException as exc:
            self._writer.transport.abort()
            await self.close()
            if isinstance(exc, UncertainAnswerError):
                raise CouldNotConnectError(f"the hub {self.address} took the connection only: {exc.text}") from exc
            if isinstance(exc, ServiceDownError):
                raise CouldNotConnectError(f"the hub {self.address} takes no login now: {exc.text}") from exc
            raise

    def _finish(self, reason: Exception) -> None:
        if self._end is not None:
            return
        self._end = reason
        if self._renewing is not None:
            self._renewing.cancel()
        self._flush()
        self._writer.close()
        self._on_end(self)
        lost = f"the channel to the hub {self.address} ended before the answer: {reason_of(reason)}"
        for txn_id in list(self._waiting):
            if (on_answer := self._waiting.pop(txn_id, None)) is not None:
                on_answer(UncertainAnswerError(lost))


def _host_name(address: HubAddress, options: ClientOptions) -> str | None:
    """Return the name that a hub's certificate must match: empty without `check_hostname`, None without TLS.

    Redirects name hubs by address, and certificates seldom do.
    """
    if options.tls is None:
        return None
    return address.host if options.tls.check_hostname else ""


def _probe(connection: socket.socket, idle_s: int) -> None:
    """Let the kernel detect that a hub's machine vanished. Otherwise a subscription would wait for ever."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPINTVL": max(1, idle_s // 3),
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": 2000 * idle_s,
    }
    for name, value in settings.items():
        if hasattr(socket, name):  # Not every system has all of them.
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
