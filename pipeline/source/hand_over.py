"""Items from an event loop for a thread that has none. The loop runs on while that thread does other work.

The consumer may take long between two items. A loop that ran only while the consumer waits for one would leave answers
unread meanwhile. Then it would find that its requests had timed out.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

__all__ = ["handed_over"]

T = TypeVar("T")

_AHEAD: Final = 1


def handed_over(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Iterate over `items`. An event loop in a separate thread makes them, one ahead of the consumer.

    Close the iterator if you leave it early: that cancels `items`, and waits for their end. Raises what `items` raise.
    """
    making = _Making(items)
    making.start()
    try:
        while (item := making.take()) is not None:
            yield item.value
    finally:
        making.end()


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _End:
    """There are no more items: all were made, or `error` ended it."""

    error: BaseException | None


class _Making(Generic[T]):
    """The thread, its loop, and the one task in it. Only the consumer's thread may call the public methods."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._handed: SimpleQueue[_Item[T] | _End] = SimpleQueue()
        self._room = asyncio.Semaphore(_AHEAD)
        self._begun = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="hand-over", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._begun.wait()

    def take(self) -> _Item[T] | None:
        """Wait for the next item; return None after the last one. The loop makes another while the caller works."""
        handed = self._handed.get()
        if isinstance(handed, _Item):
            self._tell(self._room.release)
            return handed
        if handed.error is not None:
            raise handed.error
        return None

    def end(self) -> None:
        """Cancel the task, and wait for the end of the thread."""
        if self._task is not None:
            self._tell(self._task.cancel)
        self._thread.join()

    def _tell(self, what: Callable[[], object]) -> None:
        assert self._loop is not None, "it has begun"
        # The loop closes by itself after the last item.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._make())
        except BaseException as exc:
            error = exc
        self._handed.put(_End(error))
        self._begun.set()

    async def _make(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._begun.set()
        async with aclosing(self._items) as items:
            await self._room.acquire()
            async for item in items:
                self._handed.put(_Item(item))
                await self._room.acquire()
