"""A call that the event loop of another thread runs while this thread waits.

KeyboardInterrupt may interrupt the waiting thread between any two steps. If its Python code acquired and released a
lock, the lock could stay taken. Then the loop's thread would wait for it for ever, with the calls of all threads. So
the waiting thread only sets attributes, and waits for a lock that no other thread needs.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

__all__ = ["BackgroundCall"]

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """Work for the loop of another thread, and its outcome. Only one thread may wait for it.

    Example:
        call = BackgroundCall(loop, work)
        try:
            call.begin()
            return call.outcome() if call.wait(5.0) else None
        finally:
            call.withdraw()
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._value: T | None = None
        self._error: BaseException | None = None
        self._give_back: Callable[[T], None] | None = None
        self._is_withdrawn = False
        self._over = threading.Lock()
        self._over.acquire()
        self.is_over = False
        """Whether there is an outcome."""

    def begin(self) -> None:
        """Schedule the work on the loop. Raises: RuntimeError - the loop is closed."""
        self._loop.call_soon_threadsafe(self._begin)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the outcome; return whether it is there."""
        if not self.is_over:
            self._over.acquire(timeout=min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))
        return self.is_over

    def outcome(self) -> T:
        """Return what the work returned, or raise what it raised; CancelledError if it was cancelled."""
        assert self.is_over, "wait for the outcome first"
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def withdraw(self, give_back: Callable[[T], None] | None = None) -> None:
        """Cancel the work. If it has a result nevertheless, the loop's thread passes it to `give_back`.

        May be called repeatedly, and before `begin`.
        """
        try:
            self._loop.call_soon_threadsafe(self._withdraw, give_back)
        except RuntimeError:
            return  # The loop is closed, so there is nothing that could take the result back.

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work())
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self._error = asyncio.CancelledError()
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._value = task.result()
            if self._give_back is not None:
                self._give_back(self._value)
        self.is_over = True
        self._over.release()

    def _withdraw(self, give_back: Callable[[T], None] | None) -> None:
        if self._is_withdrawn or self._task is None:
            return
        self._is_withdrawn = True
        if not self.is_over:
            self._give_back = give_back
            self._task.cancel()
        elif give_back is not None and self._error is None:
            give_back(cast(T, self._value))
