"""A wire between a client and a hub, which a test can look at, hold and cut."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from hedwig.client import HubAddress
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Answer,
    Consume,
    Delivery,
    FrameDecoder,
    Ping,
    Promises,
    Request,
    Subscribe,
    decode_request,
    decode_response,
    encode_frame,
    encode_response,
)
from tests.support.endings import end_all

__all__ = ["Wire"]

_MOST = 4 * HUB_FRAME_BYTES_MAX


class Wire:
    """Listens in front of a hub, and carries bytes both ways.

    `requests` are the requests of the clients, without the `pings`. `consumes_ahead` are CONSUMEs of messages that were
    not yet delivered on their connection.

    Tests set the rest. While `flow` is cleared, the wire holds back what the hub sends. While `deliveries` is cleared,
    it does so from the next delivery on. If `loses_consumes` is set, no CONSUME reaches the hub. `intercept` may answer
    a request in place of the hub. For the next `cuts_after_subscribed` answers to a SUBSCRIBE, the wire ends the
    connection after the answer. For the next `cuts_before_answer` requests, it ends the connection once the hub has
    received the request. The wire answers Pings itself, ahead of all else: as a hub of ours that does not recognise
    what is published again, or as one of the original if `promises` is unset. If `asks_hub` is set, the hub answers.
    """

    def __init__(self, hub: HubAddress, port: int = 0) -> None:
        """`port`: where it listens; any free port if 0."""
        self._hub = hub
        self._port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Request] = []
        self.changed = asyncio.Condition()
        self.flow = asyncio.Event()
        self.flow.set()
        self.deliveries = asyncio.Event()
        self.deliveries.set()
        self.consumes_ahead: list[Request] = []
        self.loses_consumes = False
        self.intercept: Callable[[Request], Answer | None] = lambda _: None
        self.promises = True
        self.asks_hub = False
        self.connections = 0
        self.pings = 0
        self.cuts_after_subscribed = 0
        self.cuts_before_answer = 0
        self.unanswered = 0
        self.unanswered_most = 0

    @property
    def address(self) -> HubAddress:
        assert self._server is not None
        return HubAddress("127.0.0.1", self._server.sockets[0].getsockname()[1])

    @property
    def subscribes(self) -> int:
        """Return the number of SUBSCRIBEs that came."""
        return sum(isinstance(request.action, Subscribe) for request in self.requests)

    async def has(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. Requests and answers may change it."""
        async with self.changed:
            await self.changed.wait_for(condition)

    def cut(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await end_all(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            up_reader, up_writer = await asyncio.open_connection(self._hub.host, self._hub.port)
            subscribed: set[int] = set()
            delivered: dict[tuple[Topic, SubscriberId], int] = {}
            try:
                async with asyncio.TaskGroup() as pumps:
                    down = pumps.create_task(self._carry_down(up_reader, writer, subscribed, delivered))
                    up = pumps.create_task(self._carry_up(reader, up_writer, writer, subscribed, delivered))
                    await asyncio.wait([down, up], return_when=asyncio.FIRST_COMPLETED)
                    down.cancel()
                    up.cancel()
            finally:
                up_writer.close()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            return  # The connection has ended, or the test is over.
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._tasks.discard(task)

    def _answer_to_ping(self, ping: Request) -> Answer:
        if self.promises:
            return Answer(txn_id=ping.txn_id, promises=Promises(refusals_are_definite=True))
        return Answer(txn_id=ping.txn_id, status=StatusCode.MALFORMED_REQUEST)

    async def _carry_up(
        self,
        reader: asyncio.StreamReader,
        hub: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        subscribed: set[int],
        delivered: Mapping[tuple[Topic, SubscriberId], int],
    ) -> None:
        decoder = FrameDecoder(_MOST)
        while data := await reader.read(1 << 16):
            for body in decoder.receive(data):
                request = decode_request(body)
                if isinstance(request.action, Ping):
                    self.pings += 1
                    if self.asks_hub:
                        hub.write(encode_frame(body, _MOST))
                    else:
                        client.write(encode_frame(encode_response(self._answer_to_ping(request)), _MOST))
                    continue
                if isinstance(request.action, Subscribe):
                    subscribed.add(request.txn_id)
                if isinstance(request.action, Consume):
                    newest = delivered.get((request.topic, request.action.subscriber), 0)
                    if request.action.seq_id.local > newest:
                        self.consumes_ahead.append(request)
                answer = self.intercept(request)
                async with self.changed:
                    self.requests.append(request)
                    self.unanswered += answer is None
                    self.unanswered_most = max(self.unanswered_most, self.unanswered)
                    self.changed.notify_all()
                if self.loses_consumes and isinstance(request.action, Consume):
                    continue
                if answer is not None:
                    client.write(encode_frame(encode_response(answer), _MOST))
                    continue
                hub.write(encode_frame(body, _MOST))
                if self.cuts_before_answer:
                    self.cuts_before_answer -= 1
                    await hub.drain()
                    return

    async def _carry_down(
        self,
        hub: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        subscribed: set[int],
        delivered: dict[tuple[Topic, SubscriberId], int],
    ) -> None:
        decoder = FrameDecoder(_MOST)
        while data := await hub.read(1 << 16):
            for body in decoder.receive(data):
                await self.flow.wait()
                response = decode_response(body)
                if isinstance(response, Delivery):
                    await self.deliveries.wait()
                    assert response.message.seq_id is not None
                    delivered[response.topic, response.subscriber] = response.message.seq_id.local
                client.write(encode_frame(body, _MOST))
                if not isinstance(response, Answer):
                    continue
                async with self.changed:
                    self.unanswered -= 1
                    self.changed.notify_all()
                if response.txn_id in subscribed and self.cuts_after_subscribed:
                    self.cuts_after_subscribed -= 1
                    return
