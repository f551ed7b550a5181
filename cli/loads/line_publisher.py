"""Publishing many messages: many under way at once, at a given rate, with the outcome of each in their order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from hedwig.client import HedwigClient, Message
from hedwig.clock import Clock
from hedwig.model import MessageSeqId, Topic

__all__ = ["LinePublisher", "Published"]

_BATCH_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Published:
    """A message that a hub keeps safe: the `line` that it came from, counted from 1, and its id."""

    line: int
    seq_id: MessageSeqId


class LinePublisher:
    """Publishes the messages of a source to one topic.

    `report` gets what was published, in order, some at a time, as soon as it is known.
    """

    def __init__(
        self,
        client: HedwigClient,
        topic: Topic,
        *,
        rate: float | None,
        in_flight_max: int,
        clock: Clock,
        report: Callable[[list[Published]], None],
    ) -> None:
        self._client = client
        self._topic = topic
        self._rate = rate
        self._clock = clock
        self._report = report
        self._room = asyncio.Semaphore(in_flight_max)
        self._running: deque[asyncio.Task[MessageSeqId]] = deque()
        self._news = asyncio.Event()
        self._reported = 0
        self._has_failed = False
        self.published = 0
        self.sent = 0

    async def run(self, messages: AsyncIterator[Message]) -> None:
        """Publish all. On an error or Ctrl-C, no more are sent, and what is under way is waited for.

        Raises: what `messages` raises; the error of the first message that was not published: `published` of `sent`
            were, and of those before it all.
        """
        source = asyncio.create_task(self._send_all(messages))
        source.add_done_callback(lambda _: self._news.set())
        try:
            await self._collect(source)
        finally:
            source.cancel()
            await asyncio.wait([source])
            await self._settle()
        await source

    async def _send_all(self, messages: AsyncIterator[Message]) -> None:
        began = self._clock.monotonic()
        async for message in messages:
            if self._rate is not None:
                # From the intended moment, not from the last message: a stall is made up for.
                await self._clock.sleep(max(0.0, began + self.sent / self._rate - self._clock.monotonic()))
            await self._room.acquire()
            if self._has_failed:
                return  # What comes after a message that failed must not overtake it.
            task = asyncio.create_task(self._client.publish(self._topic, message))
            task.add_done_callback(self._take_note)
            self._running.append(task)
            self.sent += 1
            self._news.set()
            if self.sent == 1:
                await asyncio.wait([task])  # The first finds the owner, so that the others go one way, in order.

    def _take_note(self, task: asyncio.Task[MessageSeqId]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._has_failed = True
        else:
            self.published += 1
        self._room.release()
        self._news.set()

    async def _collect(self, source: asyncio.Task[None]) -> None:
        while True:
            self._news.clear()
            while batch := self._take_done():
                self._report(batch)
            if source.done() and not self._running:
                return
            await self._news.wait()

    def _take_done(self) -> list[Published]:
        """Return the next messages that are published. Raises the error of the first that is not."""
        batch: list[Published] = []
        while self._running and self._running[0].done() and len(batch) < _BATCH_MAX:
            if batch and self._running[0].exception() is not None:
                break  # What was published before it is reported first.
            self._reported += 1
            batch.append(Published(self._reported, self._running.popleft().result()))
        return batch

    async def _settle(self) -> None:
        """Wait for what is under way, so that `published` counts it; each publish has a deadline of its own."""
        if self._running:
            await asyncio.wait(self._running)
