"""Starts: the pointers of subscriptions whose records may not be stored yet. Messages after them must not be deleted.

Retention reads all subscriptions of a topic, and then deletes. It may have read a pointer before another task moves it
back. So a task that moves a pointer back announces it here first. A retention pass that still reads records the start.
For a pass that already deletes, the task waits.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.errors import ServiceDownError
from hedwig.model import Topic
from hedwig.names import show_name

__all__ = ["Starts", "Watch"]


class Watch:
    """The lowest consume pointer at which a subscription has started since the watch began; None if none has."""

    __slots__ = ("lowest",)

    def __init__(self) -> None:
        self.lowest: int | None = None

    def note(self, pointer: int) -> None:
        self.lowest = pointer if self.lowest is None else min(self.lowest, pointer)


class Starts:
    """The starts of all topics."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pointers: dict[Topic, list[int]] = {}
        self._watches: dict[Topic, list[Watch]] = {}
        self._deleting = KeyedLock()

    @contextmanager
    def at(self, topic: Topic, pointer: int) -> Iterator[None]:
        """Keep the messages after `pointer` while the record of a subscription that may start there is not stored yet.

        Enter `deletion` first, unless `pointer` is the last message.
        """
        pointers = self._pointers.setdefault(topic, [])
        pointers.append(pointer)
        for watch in self._watches.get(topic, ()):
            watch.note(pointer)
        try:
            yield
        finally:
            pointers.remove(pointer)
            if not pointers:
                del self._pointers[topic]

    @contextmanager
    def watch(self, topic: Topic) -> Iterator[Watch]:
        """Watch where subscriptions start from now on, including those that are already being made."""
        watch = Watch()
        for pointer in self._pointers.get(topic, ()):
            watch.note(pointer)
        watches = self._watches.setdefault(topic, [])
        watches.append(watch)
        try:
            yield watch
        finally:
            watches.remove(watch)
            if not watches:
                del self._watches[topic]

    @asynccontextmanager
    async def deletion(self, topic: Topic) -> AsyncIterator[None]:
        """Wait until no task deletes messages of `topic`, and keep other tasks from deleting meanwhile.

        Raises: ServiceDownError - the wait takes longer than an operation may take.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await stack.enter_async_context(self._deleting.turn(topic))
            except TimeoutError:
                raise ServiceDownError(
                    f"messages of topic '{show_name(topic)}' are being deleted at this moment; try again"
                ) from None
            yield
