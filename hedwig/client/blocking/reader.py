"""A blocking iterator over messages that arrive on the event loop of another thread."""

import asyncio
import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from hedwig.client.blocking.background_call import BackgroundCall
from hedwig.errors import ClientClosedError

__all__ = ["BlockingCall", "BlockingReader"]

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
T = TypeVar("T")

_SLICE_S: Final = 1.0
"""How long one wait for a message lasts before the thread checks whether it is still open."""
_GRACE_S: Final = 5.0
"""How much later than agreed the loop's thread may answer, in case the machine is busy."""


class BlockingCall(Protocol):
    """Runs work on the client's loop, and waits for it."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T: ...


class _Source(Protocol[M_co]):
    """Where the messages come from."""

    @property
    def is_open(self) -> bool: ...
    async def __anext__(self) -> M_co: ...
    async def close(self, *, last_is_finished: bool = True) -> bool: ...


class BlockingReader(Generic[M]):
    """What a client has open: iterate over it for its messages, or `receive` them one by one.

    Several threads may use one: each message goes to one of them. With several threads auto-consume is unsafe, since a
    message counts as finished when any of them asks for another. So these should call `consume` themselves.
    """

    def __init__(
        self,
        source: _Source[M],
        loop: asyncio.AbstractEventLoop,
        begin: Callable[[BackgroundCall[Any]], None],
        call: BlockingCall,
        on_close: Callable[[Any], None],
    ) -> None:
        """`begin` begins a call on `loop`, or raises ClientClosedError."""
        self._source = source
        self._loop = loop
        self._begin = begin
        self._call = call
        self._on_close = on_close
        # A message that arrives for an interrupted thread must not get lost, but be returned next. So each thread
        # records its call until it has the message or has withdrawn.
        self._asked: dict[int, BackgroundCall[M | None]] = {}
        self._given_back: deque[M] = deque()
        self._asking = asyncio.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(last_is_finished=kind is None)

    def __iter__(self) -> Iterator[M]:
        return self

    def __next__(self) -> M:
        """Return the next message, and wait for it without limit. Ctrl-C ends the wait and loses nothing.

        Raises: StopIteration - it was closed, by any thread; any error of Subscription or Share.
        """
        while True:
            message = self.receive(_SLICE_S)
            if message is not None:
                return message
            if not self._source.is_open and not self._given_back:
                raise StopIteration

    def receive(self, timeout_s: float) -> M | None:
        """Return the next message; None if none arrived within `timeout_s` seconds, or after `close`.

        Raises: as `__anext__` of Subscription and Share, except StopAsyncIteration.
        """
        self._withdraw_last()
        me = threading.get_ident()
        call = self._asked[me] = BackgroundCall(self._loop, partial(self._next, timeout_s))
        try:
            self._begin(call)
            if not call.wait(timeout_s + _GRACE_S):
                return None
            message = call.outcome()
            # From here on the caller has the message. No function is called any more, so no interrupt can come between.
            del self._asked[me]
            return message
        except (ClientClosedError, CancelledError):
            return None
        finally:
            if me in self._asked:
                self._withdraw_last()

    def messages(self, *, idle_s: float) -> Iterator[M]:
        """Iterate over the messages until none arrived for `idle_s` seconds."""
        while (message := self.receive(idle_s)) is not None:
            yield message

    def close(self, *, last_is_finished: bool = True) -> bool:
        """End delivery and send the hub the consume pointers; the subscriptions themselves stay. May be called twice.

        Argument and result are those of Subscription.close.
        """
        self._withdraw_last()
        self._on_close(self)
        try:
            return self._call(partial(self._close, last_is_finished))
        except ClientClosedError:
            return False  # The client is closed, and it has closed all its subscriptions.

    async def _close(self, last_is_finished: bool) -> bool:
        # No thread has seen a message that was given back. The message before it counted as finished when a thread
        # asked for the next one.
        return await self._source.close(last_is_finished=last_is_finished and not self._given_back)

    async def _next(self, timeout_s: float) -> M | None:
        try:
            async with asyncio.timeout(timeout_s), self._asking:
                if self._given_back:
                    return self._given_back.popleft()
                return await anext(self._source, None)
        except TimeoutError:
            return None

    def _withdraw_last(self) -> None:
        """Withdraw a call whose message this thread did not take, also after an interrupt at this very point."""
        me = threading.get_ident()
        if (call := self._asked.get(me)) is not None:
            call.withdraw(self._give_back)
            del self._asked[me]

    def _give_back(self, message: M | None) -> None:
        if message is not None:
            self._given_back.append(message)
