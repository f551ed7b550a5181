"""One connection to one service of one server. A call ends in exactly one way:

bytes                 the response message
ServerFailure         the server's exception
NotAppliedError       the call was never sent
OutcomeUnknownError   the call was sent, and not answered in its time or before the connection ended
AbortedError          this side closed the connection
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, TypeAlias

from hedwig.clock import Deadline
from hedwig.metadata.hbase.native.wire.codec import FATAL_CALL, Reply, ReplyDecoder, encode_call, header, preamble
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.logins import LoginAnswers, log_in
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.metadata.hbase.native.wire.tokens import Token
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.rpc import Bounds, Call, RpcConnection
from hedwig.store_access import NO_HBASE_ACCESS, HBaseAccess

__all__ = ["BOUNDS", "Connection", "Done"]

# A server at its defaults takes about 930 calls in flight from all of its clients together.
BOUNDS: Final = Bounds(calls_max=256, bytes_max=16 << 20, silence_s=2.0, first_number=1, numbers_end=1 << 31)

_TIMEOUT_MIN_MS: Final = 20
"""HBase rounds shorter timeouts up to this."""

Done: TypeAlias = Callable[[bytes | Exception], None]
"""A function that takes the outcome of a call."""


class Connection(RpcConnection[bytes | Reply | Exception]):
    """An open connection. Once `ended` it is over for good, and `on_end` is called.

    On a connection with `in_blocks` the server may put cells after the messages of its replies. Such a connection is
    for reading whole tables only.
    """

    def __init__(
        self,
        server: Server,
        service: str,
        user: str,
        on_end: Callable[["Connection"], None],
        *,
        in_blocks: bool = False,
        has_logged_in: bool = False,
    ) -> None:
        begin = b"" if has_logged_in else preamble()
        begin += header(service, None if has_logged_in else user, in_blocks=in_blocks)
        super().__init__(ReplyDecoder(), BOUNDS, on_end, greeting=begin)
        self._server = server
        self._service = service
        self._is_closed = False
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.refusal: ServerFailure | None = None
        """The server's reason for refusing the connection, if it refused it and gave a reason."""
        self.was_dropped = False
        """Whether the connection was lost before the server had sent anything."""

    @classmethod
    async def open(
        cls,
        server: Server,
        service: str,
        user: str,
        on_end: Callable[["Connection"], None],
        access: HBaseAccess = NO_HBASE_ACCESS,
        *,
        in_blocks: bool = False,
    ) -> Self:
        """Connect, over TLS if there are files for it, and log in if `access` says how.

        Raises: OSError - no server listens there, its certificate is not valid for its name, or a login failed;
            ConfigurationError - a file cannot be used; MissingExtraError - logins need a package.
        """
        loop = asyncio.get_running_loop()
        tls = None if access.tls is None else access.tls.context()
        login = access.kerberos if access.token is None else Token.read(access.token)
        if login is None:
            _, connection = await loop.create_connection(
                lambda: cls(server, service, user, on_end, in_blocks=in_blocks), server.host, server.port, ssl=tls
            )
            return connection
        transport, answers = await loop.create_connection(LoginAnswers, server.host, server.port, ssl=tls)
        try:
            await log_in(transport, answers, login, server.host)
            if not answers.are_over:
                raise ConnectionAbortedError("the connection ended with the login")
        except BaseException:
            transport.abort()
            raise
        connection = cls(server, service, user, on_end, in_blocks=in_blocks, has_logged_in=True)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        return connection

    def __str__(self) -> str:
        return f"{self._service} at {self._server}"

    async def ask(self, method: str, request: bytes, deadline: Deadline) -> bytes:
        """Return the response message of one call. The call waits its turn while too many are in flight."""
        return (await self.ask_whole(method, request, deadline)).body

    async def ask_whole(self, method: str, request: bytes, deadline: Deadline) -> Reply:
        """Return the reply to one call, with the cells after its message. Waits as `ask` does."""
        await self._room(len(request), deadline)
        answer: asyncio.Future[Reply] = self._loop.create_future()

        def done(result: bytes | Reply | Exception) -> None:
            if not answer.done():
                if isinstance(result, Exception):
                    answer.set_exception(result)
                    answer.exception()  # A caller that is cancelled at this moment does not retrieve it.
                else:
                    answer.set_result(result if isinstance(result, Reply) else Reply(result))

        number = self._send(method, request, deadline.remaining_s(), done)
        try:
            return await answer
        finally:
            self.forget(number)

    def send(self, method: str, request: bytes, timeout_s: float, done: Done, *, held: bool = False) -> int:
        """Send a call without waiting for calls in flight, and return its number.

        `done` is called once, and never from within this method. The call is sent at the end of this turn of the event
        loop. If `held`, it is sent by the next `flush`, which must follow.

        Raises: LocalProtocolError - the call is too large; NotAppliedError, AbortedError - the connection is over.
        """
        return self._send(
            method, request, timeout_s, lambda result: done(result.body if isinstance(result, Reply) else result), held
        )

    def close(self) -> None:
        """End the connection from this side; calls in flight are aborted."""
        self._is_closed = self._is_closed or self.ended is None
        self._end("it was closed")

    # Called by the event loop.

    def connection_lost(self, exc: Exception | None) -> None:
        self.was_dropped = self.ended is None and not self._heard_at
        super().connection_lost(exc)

    # Inside.

    def _send(
        self,
        method: str,
        request: bytes,
        timeout_s: float,
        done: Callable[[bytes | Reply | Exception], None],
        held: bool = False,
    ) -> int:
        if self.ended is not None:
            raise NotAppliedError(f"{self}: {self.ended}")
        number = self._number
        timeout_ms = max(_TIMEOUT_MIN_MS, int(timeout_s * 950))
        frame = encode_call(number, method, request, timeout_ms)
        self._submit((frame,), len(frame), timeout_s, done, method, held)
        return number

    def _unanswered(self, call: Call[bytes | Reply | Exception], *, has_left: bool) -> Exception:
        if self._is_closed:
            return AbortedError("the store was closed", sent=has_left)
        why = self.ended or "no answer in time"
        if not has_left:
            return NotAppliedError(f"{call.label} did not leave for {self}: {why}")
        return OutcomeUnknownError(f"{call.label} of {self}: {why}")

    def _unclaimed(self, number: int, answer: bytes | Reply | Exception) -> None:
        if number == FATAL_CALL:
            self.refusal = answer if isinstance(answer, ServerFailure) else None
            self._end(f"the server refuses the connection: {self.refusal}")

    async def _room(self, size: int, deadline: Deadline) -> None:
        """Wait until a call of `size` bytes may be sent. Raises NotAppliedError - that took too long."""
        if not self._waiting and self._has_room(size, len(self._calls), self._bytes):
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(deadline.remaining_s()):
                await turn
        except BaseException as exc:
            with suppress(ValueError):
                self._waiting.remove((size, turn))
            self._freed()
            if isinstance(exc, TimeoutError):
                raise NotAppliedError(f"{self} has too much to do") from exc
            raise

    def _has_room(self, size: int, calls: int, held: int) -> bool:
        """Say whether a call of `size` bytes may be sent beside `calls` calls of `held` bytes together."""
        return not calls or (calls < BOUNDS.calls_max and held + size <= BOUNDS.bytes_max)

    def _freed(self) -> None:
        """Wake the waiting calls for which there is room now. After the end of the connection wake all; these fail."""
        calls, held = len(self._calls), self._bytes
        while self._waiting:
            size, turn = self._waiting[0]
            if self.ended is None and not self._has_room(size, calls, held):
                return
            self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                calls += 1
                held += size
