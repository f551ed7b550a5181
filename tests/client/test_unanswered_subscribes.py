"""Prove that a SUBSCRIBE without an answer in time costs no message on a shared channel.

The hub may deliver for that attempt while the client has no subscription, and go on during the next attempt.
"""

import asyncio

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ServiceError
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    HUB_FRAME_BYTES_MAX,
    Answer,
    CloseSubscription,
    Consume,
    Delivery,
    FrameDecoder,
    Message,
    Request,
    Response,
    Subscribe,
    decode_request,
    encode_frame,
    encode_response,
)

ANN, BOB = SubscriberId(b"ann"), SubscriberId(b"bob")
TOPIC = Topic(b"topic")
PATIENCE_S = 30.0
SLOW_S = 0.5
"""How long a client waits here for an answer."""


class SlowHub:
    """A hub with three messages that does not answer the first attempts of Ann, and is slow to deliver for them.

    It answers a request to close them with `closed`. If it refuses, the attempt keeps waiting in the hub, and attaches
    later.
    """

    def __init__(self, unanswered: int, closed: StatusCode = StatusCode.SUCCESS) -> None:
        self._unanswered = unanswered
        self._closed = closed
        self._late: list[asyncio.StreamWriter] = []
        """Connections on which messages are left to deliver for an attempt whose close was refused."""
        self.overtaken = 0
        """How many attempts came while the one before was not over."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: asyncio.Queue[Request | None] = asyncio.Queue()
        reading = asyncio.create_task(self._read(reader, requests))
        try:
            while (request := await requests.get()) is not None:
                await self._carry_out(request, requests, writer)
        finally:
            reading.cancel()
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader, requests: asyncio.Queue[Request | None]) -> None:
        decoder = FrameDecoder(HUB_FRAME_BYTES_MAX)
        while data := await reader.read(1 << 16):
            for body in decoder.receive(data):
                requests.put_nowait(decode_request(body))
        requests.put_nowait(None)

    async def _carry_out(
        self, request: Request, requests: asyncio.Queue[Request | None], writer: asyncio.StreamWriter
    ) -> None:
        match request.action:
            case Subscribe(subscriber=subscriber) if subscriber == ANN and self._unanswered:
                self._unanswered -= 1
            case CloseSubscription(subscriber) if subscriber == ANN:
                # The attempt was attached after all: some deliveries come now, some after the client had time to go on.
                self._send(writer, self._delivery(ANN, 1))
                if not self._unanswered:
                    self._send(writer, self._delivery(BOB, 1))
                if self._closed is not StatusCode.SUCCESS:
                    self._late.append(writer)
                    self._send(writer, Answer(txn_id=request.txn_id, status=self._closed))
                    return
                for _ in range(5):
                    await asyncio.sleep(SLOW_S / 10)
                    if not requests.empty():
                        self.overtaken += 1
                        break
                self._send(writer, self._delivery(ANN, 2), Answer(txn_id=request.txn_id))
            case Subscribe(subscriber=subscriber):
                if subscriber == ANN and writer in self._late:
                    self._send(writer, self._delivery(ANN, 2))
                self._send(writer, Answer(txn_id=request.txn_id))
                if subscriber == ANN:
                    self._send(writer, *(self._delivery(ANN, local) for local in (1, 2, 3)))
            case Consume():
                pass
            case _:
                self._send(writer, Answer(txn_id=request.txn_id))

    @staticmethod
    def _delivery(subscriber: SubscriberId, local: int) -> Delivery:
        message = Message(b"message %d" % local).accepted(MessageSeqId(local), b"here")
        return Delivery(topic=TOPIC, subscriber=subscriber, message=message)

    @staticmethod
    def _send(writer: asyncio.StreamWriter, *responses: Response) -> None:
        for response in responses:
            writer.write(encode_frame(encode_response(response), HUB_FRAME_BYTES_MAX))


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(StatusCode.SUCCESS, id="ended"),
        # No hub redirected the request to close here, so this hub refuses it. The attempt was redirected, and waits.
        pytest.param(StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, id="not ended: not responsible"),
        pytest.param(StatusCode.SERVICE_DOWN, id="not ended: down"),
    ],
)
async def test_messages_of_an_unanswered_attempt_are_not_taken_for_those_of_the_next(closed: StatusCode) -> None:
    # The client makes two attempts for each call: the second follows by itself.
    hub = SlowHub(2, closed)
    server = await asyncio.start_server(hub.serve, "127.0.0.1", 0)
    address = HubAddress("127.0.0.1", server.sockets[0].getsockname()[1])
    options = ClientOptions(hub=address, share_channels=True, answer_timeout_s=SLOW_S)
    async with server, asyncio.timeout(PATIENCE_S), HedwigClient(options) as client:
        # Bob's subscription keeps the shared channel open.
        bob = await client.subscribe(TOPIC, BOB)
        while True:
            try:
                subscription = await client.subscribe(TOPIC, ANN)
                break
            except ServiceError:
                await anext(bob)  # This message comes after the first one that the hub delivers for the attempt.
        bodies: list[bytes] = []
        while bodies[-1:] != [b"message 3"]:
            bodies.append((await anext(subscription)).body)
        assert not client.counters.dropped
    assert bodies == [b"message 1", b"message 2", b"message 3"]
    assert not hub.overtaken
