"""A connection to a hub that reads from the hub only when a test asks for it.

Unread bytes stay in the kernel and then in the hub, as they do for a slow client. `WireClient`, which stands on this,
always reads.
"""

import asyncio
import itertools
import socket
import ssl
from collections import deque
from types import TracebackType
from typing import Final, Self

from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import (
    CLIENT_FRAME_BYTES_MAX,
    Action,
    Answer,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    FrameDecoder,
    Message,
    Publish,
    Request,
    Response,
    Subscribe,
    decode_response,
    encode_frame,
    encode_request,
)

__all__ = ["WireChannel"]

_READ_BYTES: Final = 1 << 16
_WAIT_S: Final = 30.0
_FRAME_BYTES_MAX: Final = 1 << 30


class WireChannel:
    """One TCP connection, for one task that receives. Requests are numbered from 1.

    Raises, from every method that sends or receives: OSError - the connection is over; TimeoutError - nothing for 30 s.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take up a connection; use `open` instead."""
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder(CLIENT_FRAME_BYTES_MAX)
        self._heard: deque[Response] = deque()
        self._txn_ids = itertools.count(1)

    @classmethod
    async def open(
        cls, port: int, *, receive_bytes: int | None = None, tls: ssl.SSLContext | None = None, source: str = ""
    ) -> Self:
        """Connect to the hub on a port of this machine. Raises OSError, TimeoutError.

        `receive_bytes` bounds the unread bytes in the kernel; None: the system's default. `source` is the address to
        connect from, 127.0.0.1 if it is empty.
        """
        connection = socket.socket()
        try:
            if receive_bytes is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            if source:
                connection.bind((source, 0))
            connection.setblocking(False)
            async with asyncio.timeout(_WAIT_S):
                await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
                # asyncio reads this much ahead of the test. The rest waits in the kernel, and then in the hub.
                reader, writer = await asyncio.open_connection(
                    sock=connection,
                    limit=receive_bytes or _READ_BYTES,
                    ssl=tls,
                    server_hostname="127.0.0.1" if tls else None,
                )
        except BaseException:
            connection.close()
            raise
        return cls(reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def abort(self) -> None:
        """End the connection at once. Bytes on their way may get lost."""
        self.writer.transport.abort()

    # ---------------------------------------------------------------------------------------------- sending

    def next_txn_id(self) -> int:
        """Return the number of a request that the caller sends with `write_frame`."""
        return next(self._txn_ids)

    def write(self, topic: bytes, action: Action, *, should_claim: bool = True) -> int:
        """Send a request without waiting for room, and return its number."""
        txn_id = self.next_txn_id()
        request = Request(topic=Topic(topic), txn_id=txn_id, action=action, should_claim=should_claim)
        self.write_frame(encode_request(request))
        return txn_id

    def write_frame(self, body: bytes) -> None:
        """Send any body after its length, without waiting for room."""
        self.writer.write(encode_frame(body, _FRAME_BYTES_MAX))

    async def send(self, topic: bytes, action: Action) -> int:
        """Send a request, and return its number."""
        txn_id = self.write(topic, action)
        await self._drain()
        return txn_id

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes."""
        self.writer.write(data)
        await self._drain()

    async def _drain(self) -> None:
        async with asyncio.timeout(_WAIT_S):
            await self.writer.drain()

    async def publish(self, topic: bytes, body: bytes) -> int:
        """Send a PUBLISH, and return its number."""
        return await self.send(topic, Publish(Message(body)))

    async def subscribe(
        self,
        topic: bytes,
        subscriber: bytes,
        mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH,
        *,
        window: int | None = None,
    ) -> int:
        """Send a SUBSCRIBE, and return its number."""
        preferences = SubscriptionPreferences(message_window_size=window)
        return await self.send(
            topic, Subscribe(subscriber=SubscriberId(subscriber), mode=mode, preferences=preferences)
        )

    async def consume(self, topic: bytes, subscriber: bytes, local: int) -> None:
        """Send a CONSUME."""
        await self.send(topic, Consume(subscriber=SubscriberId(subscriber), seq_id=MessageSeqId(local)))

    async def close_subscription(self, topic: bytes, subscriber: bytes) -> int:
        """Send a CLOSESUBSCRIPTION, and return its number."""
        return await self.send(topic, CloseSubscription(SubscriberId(subscriber)))

    # -------------------------------------------------------------------------------------------- receiving

    async def receive(self, timeout_s: float | None = _WAIT_S) -> Response:
        """Return the next response. `timeout_s` None: wait without a limit. Cancelling loses nothing.

        Raises: ConnectionResetError - the hub sends nothing any more; RemoteProtocolError - what it sends is no
            response.
        """
        async with asyncio.timeout(timeout_s):
            while not self._heard:
                data = await self.reader.read(_READ_BYTES)
                if not data:
                    raise ConnectionResetError("the hub closed the connection")
                self._heard.extend(decode_response(body) for body in self._decoder.receive(data))
        return self._heard.popleft()

    async def answer(self, txn_id: int) -> Answer:
        """Return the answer to a request; drop the responses before it."""
        while True:
            heard = await self.receive()
            if isinstance(heard, Answer) and heard.txn_id == txn_id:
                return heard
