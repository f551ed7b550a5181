"""Publishes many messages, many at once, at a given rate. It reports the outcomes in the order of the messages."""

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
    """A message that a hub has stored: the `line` that it came from, counted from 1, and its id."""

    line: int
    seq_id: MessageSeqId


class LinePublisher:
    """Publishes the messages of a source to one topic.

    `report` receives published messages, in order, a few at a time, as soon as they are known.
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
        """Publish all messages. On an error or Ctrl-C, send no more, and wait for those under way.

        Raises: the error of `messages`; the error of the first message that was not published: `published` of `sent`
            were, and all messages before that one.
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
                # Count from the intended moment, not from the last message, so that the rate catches up after a stall.
                await self._clock.sleep(max(0.0, began + self.sent / self._rate - self._clock.monotonic()))
            await self._room.acquire()
            if self._has_failed:
                return  # A message after a failed one must not overtake it.
            task = asyncio.create_task(self._client.publish(self._topic, message))
            task.add_done_callback(self._take_note)
            self._running.append(task)
            self.sent += 1
            self._news.set()

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
        """Return the next published messages. Raises the error of the first that is not published."""
        batch: list[Published] = []
        while self._running and self._running[0].done() and len(batch) < _BATCH_MAX:
            if batch and self._running[0].exception() is not None:
                break  # Report the messages published before the error first.
            self._reported += 1
            batch.append(Published(self._reported, self._running.popleft().result()))
        return batch

    async def _settle(self) -> None:
        """Wait for the publishes under way, so that `published` counts them. Each has its own deadline."""
        if self._running:
            await asyncio.wait(self._running)
