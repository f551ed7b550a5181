"""Publishers and subscribers that continue while topics move between hubs, and the rules for their messages."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.errors import ServiceError, SubscriptionClosedError
from hedwig.model import SubscriberId, Topic
from tests.support.endings import end_all

__all__ = ["Traffic"]

_PAUSE_S = 0.02


@dataclass
class _Stream:
    """A topic: the acknowledged messages with their ids, and the messages that its subscriber received, in order."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    received: list[tuple[int, bytes]] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    """When each acknowledged publish began, by the clock of `time.monotonic`, and how long it took, in seconds."""
    refusals: list[ServiceError] = field(default_factory=list)
    """The definite ones. The client should have tried again until a hub took the message."""
    uncertain: int = 0

    @property
    def has_all(self) -> bool:
        return bool(self.received) and max(local for local, _ in self.received) >= self.last

    def check(self) -> None:
        """Fail if an acknowledged message was lost, changed or reordered, or if an id is missing."""
        ids = [local for local, _ in self.received]
        high = 0
        for local in ids:
            assert local <= high + 1, f"after {high} came {local}: {ids}"
            high = max(high, local)
        bodies: dict[int, bytes] = {}
        for local, body in self.received:
            assert bodies.setdefault(local, body) == body, f"two messages of id {local}"
        for local, body in self.acknowledged.items():
            assert bodies.get(local) == body, (
                f"{body!r} was acknowledged under {local}; delivered was {bodies.get(local)!r}"
            )


class Traffic:
    """One client of ours that publishes to topics and subscribes to them. It asks `hub` first."""

    def __init__(self, hub: str, topics: Iterable[bytes]) -> None:
        self.streams = {topic: _Stream() for topic in topics}
        self._hub = HubAddress.parse(hub)
        self._stack = AsyncExitStack()
        self._publishing: list[asyncio.Task[None]] = []
        self._receiving: list[asyncio.Task[None]] = []
        self._is_over = False

    async def __aenter__(self) -> "Traffic":
        options = ClientOptions(hub=self._hub, publish_once=True)
        client = await self._stack.enter_async_context(HedwigClient(options))
        opened = [await client.subscribe(Topic(topic), SubscriberId(b"ann")) for topic in self.streams]
        for subscription, stream in zip(opened, self.streams.values(), strict=True):
            self._receiving.append(asyncio.create_task(self._receive(subscription, stream)))
        for topic, stream in self.streams.items():
            self._publishing.append(asyncio.create_task(self._publish(client, topic, stream)))
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await end_all([*self._publishing, *self._receiving])
        finally:
            await self._stack.aclose()

    @property
    def published(self) -> int:
        return sum(len(stream.acknowledged) for stream in self.streams.values())

    def check_going_on(self) -> None:
        """Fail if a publisher or a subscriber has ended, with its error."""
        for task in (*self._publishing, *self._receiving):
            assert not task.done(), f"it has ended: {task.exception()!r}"

    async def settle(self) -> None:
        """Stop publishing, and wait for every acknowledged message.

        Check that no publish was refused, and that no message was lost or reordered.
        """
        self._is_over = True
        await asyncio.gather(*self._publishing)
        async with asyncio.timeout(30):
            while not all(stream.has_all for stream in self.streams.values()):  # noqa: ASYNC110 (many may change it)
                await asyncio.sleep(_PAUSE_S)
        for topic, stream in self.streams.items():
            assert not stream.refusals, f"{topic!r}: {stream.refusals[0]!r}"
            stream.check()

    async def _publish(self, client: HedwigClient, topic: bytes, stream: _Stream) -> None:
        number = 0
        while not self._is_over:
            number += 1
            body = b"%s %d" % (topic, number)
            began_at = time.monotonic()
            try:
                seq_id = await client.publish(Topic(topic), body)
                assert seq_id.local > stream.last, f"after {stream.last} another was acknowledged as {seq_id.local}"
                stream.acknowledged[seq_id.local] = body
                stream.last = seq_id.local
                stream.took.append((began_at, time.monotonic() - began_at))
            except ServiceError as exc:
                if exc.happened == "no":
                    stream.refusals.append(exc)
                else:
                    stream.uncertain += 1
            await asyncio.sleep(_PAUSE_S)

    async def _receive(self, subscription: Subscription, stream: _Stream) -> None:
        try:
            async for message in subscription:
                assert message.seq_id is not None
                stream.received.append((message.seq_id.local, bytes(message.body)))
        except SubscriptionClosedError:
            return
