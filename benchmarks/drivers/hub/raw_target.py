"""The raw driver: it sends prepared frames, and parses of an answer only what it counts."""

import asyncio
from typing import Final

from hedwig.benchmarks.drivers.hub.raw_channel import RawChannel
from hedwig.benchmarks.drivers.hub.raw_frames import PublishFrames, close_frame, subscribe_frame, unsubscribe_frame
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation, Workload, subscriber_name, topic_name
from hedwig.status import StatusCode

__all__ = ["NOBODY", "RawTarget"]

NOBODY: Final = b"nobody"
"""A subscriber id that subscribes to no topic."""

_CLOSE_S: Final = 10.0
_ATTACHING: Final = 500
"""Subscriptions in flight at once while subscribers attach before the load."""


class RawTarget:
    """Operations over plain sockets: `connections` carry requests, and each subscriber number has one to receive.

    All requests for a topic go over the same connection. With several shares, each share has the topics to itself that
    its operations choose. A workload with subscribers runs as one share, since that attaches to all topics.
    """

    def __init__(self, workload: Workload, host: str, port: int, *, share: int = 0, shares: int = 1) -> None:
        if workload.subscribers and shares > 1:
            raise ValueError(
                "a workload with subscribers runs in one process, which counts its messages: use --processes 1"
            )
        self._workload = workload
        self._host, self._port = host, port
        self._share, self._shares = share, shares
        self._frames = PublishFrames(workload)
        self._channels: list[RawChannel] = []
        self._receivers: list[RawChannel] = []

    async def open(self, observer: Observer) -> None:
        """Connect, and attach the subscribers. Raises OSError, RuntimeError - the hub refused a subscription."""
        workload = self._workload
        connections = max(1, workload.connections // self._shares)
        self._channels = [await self._connect(observer) for _ in range(connections)]
        self._receivers = [await self._connect(observer) for _ in range(workload.subscribers)]
        if not {Operation.PUBLISH, Operation.DELIVER}.isdisjoint(workload.mix):
            topic_of = workload.topic_chooser()
            # With a sample, prepare frames for its topics only: a frame takes hundreds of bytes.
            for topic in map(topic_of, range(workload.sample)) if workload.sample else range(workload.topics):
                self._frames.parts(topic)
        for subscriber, channel in enumerate(self._receivers):
            await _attach(channel, workload, subscriber)
        for channel in (*self._channels, *self._receivers):
            channel.observer = observer

    async def _connect(self, observer: Observer) -> RawChannel:
        loop = asyncio.get_running_loop()
        _, channel = await loop.create_connection(
            lambda: RawChannel(loop, observer, consume_every=self._workload.consume_every), self._host, self._port
        )
        return channel

    def begin(self, number: int, operation: Operation, topic: int) -> None:
        """Begin an operation."""
        channel = self._channels[topic % len(self._channels)]
        if operation is Operation.PUBLISH or operation is Operation.DELIVER:
            channel.publish(number, *self._frames.parts(topic))
            return
        name = topic_name(self._workload.prefix, topic)
        if operation is Operation.OWN:
            channel.request(number, unsubscribe_frame(name, NOBODY), expected=StatusCode.CLIENT_NOT_SUBSCRIBED.name)
            return
        # Unique over all shares, and different from the subscribers attached before the load.
        subscriber = self._workload.subscribers + number * self._shares + self._share
        if operation is Operation.SUBSCRIBE:
            channel.request(number, subscribe_frame(name, subscriber))
        else:
            channel.request(number, subscribe_frame(name, subscriber), then=close_frame(name, subscriber))

    async def close(self) -> None:
        """Disconnect."""
        channels = (*self._channels, *self._receivers)
        for channel in channels:
            channel.close()
        async with asyncio.timeout(_CLOSE_S):
            for channel in channels:
                await channel.closed.wait()


class _Attaching:
    """Counts the answers to subscriptions that are made before the load."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(_ATTACHING)
        self.errors: list[str] = []

    def answered(self, _: int, error: str | None) -> None:
        if error is not None:
            self.errors.append(error)
        self.room.release()

    def delivered(self, _: int) -> None:
        """Ignore a delivery: nothing is published yet, so its message is from before."""

    def refused(self, _: int) -> None:
        """Do nothing: no attempt is repeated here."""

    def lost(self) -> None:
        self.errors.append("connection lost")


async def _attach(channel: RawChannel, workload: Workload, subscriber: int) -> None:
    counting = _Attaching()
    channel.observer = counting
    async with asyncio.timeout(60 + workload.topics / 100):
        for topic in range(workload.topics):
            await counting.room.acquire()
            channel.request(topic, subscribe_frame(topic_name(workload.prefix, topic), subscriber))
        for _ in range(_ATTACHING):
            await counting.room.acquire()
    if counting.errors:
        raise RuntimeError(
            f"{len(counting.errors)} of {workload.topics} subscriptions of {subscriber_name(subscriber)!r} failed, "
            f"the first with {counting.errors[0]}"
        )
