"""One connection to one bookie.

When the connection ends, a request without an answer is NOT_SENT if it never left, and UNANSWERED otherwise. The bookie
may have run, or may still run, each request that reached it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Self, cast

from hedwig.errors import RemoteProtocolError
from hedwig.hub.ledgers.bookkeeper.wire.add_messages import FIRST_TRANSACTION, TRANSACTIONS_END
from hedwig.hub.ledgers.bookkeeper.wire.codec import AnswerDecoder, encode_parts, encode_start_tls
from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome
from hedwig.hub.ledgers.bookkeeper.wire.requests import BookieAnswer, Done, Request
from hedwig.rpc import Bounds, Call, RpcConnection
from hedwig.store_access import TlsFiles

__all__ = ["BOUNDS", "BookieConnection"]

BOUNDS: Final = Bounds(
    calls_max=8192,  # A bookie refuses more than 10,000 for one of its threads.
    bytes_max=64 << 20,
    silence_s=1.0,
    first_number=FIRST_TRANSACTION,
    numbers_end=TRANSACTIONS_END,
)


class _TlsBeginning(asyncio.Protocol):
    """The request with which a connection to a bookie begins TLS, until its answer."""

    def __init__(self) -> None:
        self.agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._decoder = AnswerDecoder()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(encode_start_tls())

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._decoder.receive(data)
        except RemoteProtocolError as exc:
            self._conclude(exc)
            return
        for _, answer in answers:
            is_agreed = answer.outcome is BookieOutcome.DONE
            self._conclude(None if is_agreed else ConnectionError(f"the bookie speaks no TLS ({answer.outcome.name})"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._conclude(exc or ConnectionError("the bookie ended the connection when asked for TLS"))

    def _conclude(self, error: Exception | None) -> None:
        if self.agreed.done():
            return
        if error is None:
            self.agreed.set_result(None)
        else:
            self.agreed.set_exception(error)


class BookieConnection(RpcConnection[BookieAnswer]):
    """An open connection. Once `ended` is set it never opens again; it then calls `on_end`."""

    def __init__(self, name: str, on_end: Callable[["BookieConnection"], None]) -> None:
        super().__init__(AnswerDecoder(), BOUNDS, on_end, peer="bookie")
        self._name = name

    @classmethod
    async def open(
        cls,
        name: str,
        host: str,
        port: int,
        on_end: Callable[["BookieConnection"], None],
        tls: TlsFiles | None = None,
    ) -> Self:
        """Connect, over TLS if there are files for it.

        Raises: OSError - no bookie listens there, it speaks no TLS, or its certificate is not valid for its name;
            RemoteProtocolError - it is no bookie; ConfigurationError - a file cannot be used.
        """
        loop = asyncio.get_running_loop()
        if tls is None:
            _, connection = await loop.create_connection(lambda: cls(name, on_end), host, port)
            return connection
        context = tls.context()
        plain, beginning = await loop.create_connection(_TlsBeginning, host, port)
        try:
            await beginning.agreed
            connection = cls(name, on_end)
            transport = await loop.start_tls(plain, connection, context, server_hostname=host)
            if transport is None:
                raise ConnectionError("the connection ended in the TLS handshake")
        except BaseException:
            plain.abort()
            raise
        connection.connection_made(transport)
        return connection

    def send(self, request: Request, timeout_s: float, done: Done) -> None:
        """Send a request; see `Bookies.send`."""
        if self.ended is not None:
            self._loop.call_soon(done, BookieAnswer(outcome=BookieOutcome.NOT_SENT, why=self.ended))
            return
        frame = encode_parts(self._number, request)
        size = len(frame[0]) + len(frame[1])
        count = len(self._calls)
        if count and (count >= BOUNDS.calls_max or self._bytes + size > BOUNDS.bytes_max):
            why = f"{count} requests with {self._bytes} bytes are in flight"
            self._loop.call_soon(done, BookieAnswer(outcome=BookieOutcome.BUSY, why=why))
            return
        self._submit(frame, size, timeout_s, done)

    def close(self) -> None:
        """End the connection from this side."""
        self._end("this side closed the connection")

    def _end(self, why: str) -> None:
        super()._end(f"{self._name}: {why}")

    def _unanswered(self, call: Call[BookieAnswer], *, has_left: bool) -> BookieAnswer:
        outcome = BookieOutcome.UNANSWERED if has_left else BookieOutcome.NOT_SENT
        waited_s = self._loop.time() - call.asked_at
        return BookieAnswer(outcome=outcome, why=self.ended or f"{self._name} did not answer within {waited_s:.3g} s")
