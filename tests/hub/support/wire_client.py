"""A raw client. It sends any request or bytes to a hub, always reads, and keeps all responses in order.

It does no redirects, retries or consumes, so a test sees exactly what the hub did. It stands on `WireChannel`, which is
for tests that read late or not at all.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, cast

from hedwig.errors import RemoteProtocolError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences
from hedwig.status import StatusCode
from hedwig.wire import (
    Action,
    Answer,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Delivery,
    Event,
    Message,
    Publish,
    Response,
    Subscribe,
    Unsubscribe,
)
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.support.wire_channel import WireChannel

__all__ = ["DEADLINE_S", "ChannelClosedError", "WireClient", "eventually", "raw_request"]

DEADLINE_S: Final = 60.0
"""How long a test waits for the hub before it fails."""

_PAUSE_S: Final = 0.005


class ChannelClosedError(Exception):
    """The hub closed the channel before it sent the expected response."""


class WireClient:
    """One channel to a hub. `received` has all responses in order, deliveries and answers alike."""

    def __init__(self, channel: WireChannel) -> None:
        """Take a connection over; use `connect` instead."""
        self.received: list[Response] = []
        self.answers: dict[int, list[Answer]] = {}
        self.events: list[Event] = []
        self.is_closed = False
        self._channel = channel
        self._fault: RemoteProtocolError | None = None
        self._deliveries: deque[Delivery] = deque()
        self._news = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._task = asyncio.get_running_loop().create_task(self._receive())

    @classmethod
    async def connect(cls, port: int, tls: ssl.SSLContext | None = None) -> Self:
        """Open a channel to a hub on loopback."""
        return cls(await WireChannel.open(port, tls=tls))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the channel from this side, at once."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._channel.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    @property
    def writer(self) -> asyncio.StreamWriter:
        """The connection, for bytes that no method here sends."""
        return self._channel.writer

    def stop_reading(self) -> None:
        """Leave the hub's bytes in the connection, as a slow client does."""
        self._may_read.clear()
        self._transport.pause_reading()

    def read_on(self) -> None:
        self._may_read.set()
        self._transport.resume_reading()

    @property
    def _transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self.writer.transport)

    # ---------------------------------------------------------------------------------------------- sending

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    def send_frame(self, body: bytes) -> None:
        """Send any body after its length."""
        self._channel.write_frame(body)

    def send(self, topic: bytes, action: Action, *, should_claim: bool = True) -> int:
        """Send a request without waiting; return its number."""
        return self._channel.write(topic, action, should_claim=should_claim)

    def send_raw(self, **fields: Any) -> int:
        """Send a request made of protobuf fields, see `raw_request`; return its number."""
        txn_id: int = fields.setdefault("txnId", self._channel.next_txn_id())
        self.send_frame(raw_request(**fields))
        return txn_id

    async def request(self, topic: bytes, action: Action, *, should_claim: bool = True) -> Answer:
        """Send a request and return its answer."""
        return await self.answer(self.send(topic, action, should_claim=should_claim))

    async def publish(self, topic: bytes, body: bytes) -> int:
        """Publish and return the id that the hub gave the message. Fails if it refuses."""
        return self.published(await self.request(topic, Publish(Message(body))))

    async def publish_many(self, topic: bytes, *bodies: bytes) -> list[int]:
        """Publish all without waiting in between; return their ids."""
        sent = [self.send(topic, Publish(Message(body))) for body in bodies]
        return [self.published(await self.answer(txn_id)) for txn_id in sent]

    @staticmethod
    def published(answer: Answer) -> int:
        assert answer.status is StatusCode.SUCCESS, answer
        assert answer.published is not None, answer
        return answer.published.local

    async def subscribe(
        self,
        topic: bytes,
        subscriber: bytes,
        *,
        mode: CreateOrAttach = CreateOrAttach.CREATE_OR_ATTACH,
        preferences: SubscriptionPreferences | None = None,
        force: bool = False,
    ) -> Answer:
        action = Subscribe(
            subscriber=SubscriberId(subscriber),
            mode=mode,
            preferences=preferences or SubscriptionPreferences(),
            synchronous=True,
            force_attach=force,
        )
        return await self.request(topic, action)

    async def subscribed(self, topic: bytes, subscriber: bytes, **options: Any) -> SubscriptionPreferences:
        """Subscribe and return the effective preferences. Fails if the hub refuses."""
        answer = await self.subscribe(topic, subscriber, **options)
        assert answer.status is StatusCode.SUCCESS, answer
        assert answer.preferences is not None, answer
        return answer.preferences

    def consume(self, topic: bytes, subscriber: bytes, local: int) -> int:
        """Move the consume pointer; there is no answer."""
        return self.send(
            topic, Consume(subscriber=SubscriberId(subscriber), seq_id=MessageSeqId(local)), should_claim=False
        )

    async def unsubscribe(self, topic: bytes, subscriber: bytes) -> Answer:
        return await self.request(topic, Unsubscribe(SubscriberId(subscriber)))

    async def close_subscription(self, topic: bytes, subscriber: bytes) -> Answer:
        return await self.request(topic, CloseSubscription(SubscriberId(subscriber)))

    async def barrier(self) -> None:
        """Return once the hub has taken all earlier requests, and has sent its immediate answers to them."""
        answer = await self.answer(self.send_raw(topic=b"barrier", type=pb.START_DELIVERY))
        assert answer.status is StatusCode.MALFORMED_REQUEST, answer

    # -------------------------------------------------------------------------------------------- receiving

    async def answer(self, txn_id: int) -> Answer:
        """Return the answer to a request. Raises ChannelClosedError if the channel ended without it."""
        await self._until(lambda: txn_id in self.answers, f"the answer to request {txn_id}")
        return self.answers[txn_id][0]

    async def delivery(self) -> Delivery:
        """Return the next delivery."""
        await self._until(lambda: bool(self._deliveries), "a delivery")
        return self._deliveries.popleft()

    async def deliveries(self, count: int) -> list[Delivery]:
        """Return the next `count` deliveries."""
        await self._until(lambda: len(self._deliveries) >= count, f"{count} deliveries")
        return [self._deliveries.popleft() for _ in range(count)]

    async def delivered(self, count: int) -> list[int]:
        """Return the ids of the next `count` deliveries."""
        return [_local(each) for each in await self.deliveries(count)]

    @property
    def undelivered(self) -> list[int]:
        """The ids of the deliveries that arrived and were not taken yet."""
        return [_local(each) for each in self._deliveries]

    async def event(self) -> Event:
        """Return the first event, once there is one."""
        await self._until(lambda: bool(self.events), "an event")
        return self.events[0]

    async def closed_by_hub(self) -> None:
        """Return once the hub has closed the channel."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.is_closed:
                self._news.clear()
                await self._news.wait()
        self._check()

    def _check(self) -> None:
        if self._fault is not None:
            raise AssertionError(f"the hub sent what is no response: {self._fault}")

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not condition():
                    if self.is_closed:
                        self._check()
                        raise ChannelClosedError(f"the hub closed the channel before {what}")
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"the hub did not send {what} within {DEADLINE_S:g} s: {self.received[-5:]}") from None

    async def _receive(self) -> None:
        try:
            while True:
                response = await self._channel.receive(None)
                await self._may_read.wait()
                self._take(response)
        except OSError:
            pass
        except RemoteProtocolError as exc:
            self._fault = exc
        finally:
            self.is_closed = True
            self._news.set()

    def _take(self, response: Response) -> None:
        self.received.append(response)
        match response:
            case Answer():
                self.answers.setdefault(response.txn_id, []).append(response)
            case Delivery():
                self._deliveries.append(response)
            case Event():
                self.events.append(response)
        self._news.set()


def _local(delivery: Delivery) -> int:
    assert delivery.message.seq_id is not None, delivery
    return delivery.message.seq_id.local


def raw_request(**fields: Any) -> bytes:
    """Return the body of a request made of protobuf fields, of which any but `topic` may be left out."""
    request = pb.PubSubRequest(**{"protocolVersion": pb.VERSION_ONE, **fields})
    return request.SerializePartialToString()


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait for a condition that no message reports. Raises AssertionError if it does not become true."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            while True:
                outcome = condition()
                if outcome if isinstance(outcome, bool) else await outcome:
                    return
                await asyncio.sleep(_PAUSE_S)
        except asyncio.CancelledError:
            raise AssertionError(f"not so within {DEADLINE_S:g} s: {what}") from None
