"""The appends of a log to its current ledger: positions in order, and outcomes reported in that order.

The entry id of a message is its position minus the first position of its ledger.
"""

import asyncio
from collections import deque
from typing import Protocol, TypeAlias

from hedwig.errors import (
    EntryOrderError,
    HedwigError,
    InvalidArgumentError,
    LedgerStoreUnavailableError,
    MalformedRequestError,
    ServiceDownError,
    UncertainAnswerError,
)
from hedwig.hub.logs.log import Published
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.logs.remote_positions import check_bound, furthest
from hedwig.hub.logs.repeats import Publisher
from hedwig.model import MessageSeqId, RegionSeqId
from hedwig.wire import Message

__all__ = ["Appends"]

_Append: TypeAlias = "tuple[asyncio.Future[None], bytes, tuple[RegionSeqId, ...], Published]"
"""An append on its way: its outcome, the message, the positions of other regions, and the callback."""


class _Log(Protocol):
    """The log whose appends these are."""

    last_id: int

    def on_stored(self, stored: bytes) -> None:
        """Receive the message after `last_id`, which has just become part of the topic."""
        ...

    def on_refused(self, error: HedwigError, last: int) -> None:
        """Record that the messages behind the position `last` are surely not stored, or nobody may rely on them."""
        ...

    def on_failed(self, error: HedwigError) -> None:
        """Append no more: only a new claim, which fences, can find out what is in the ledger."""
        ...


class Appends:
    """The appends of a log, from its first ledger on. The log calls `begin` with each ledger in turn."""

    __slots__ = (
        "_bytes",
        "_is_over",
        "_last",
        "_log",
        "_outstanding",
        "_store",
        "first",
        "found_ms",
        "has_failed",
        "ledger_id",
        "remote",
        "start",
        "stored_ms",
    )

    def __init__(self, store: LogContext, log: _Log, remote: tuple[RegionSeqId, ...]) -> None:
        self._store = store
        self._log = log
        self.ledger_id: int | None = None
        """The ledger that takes appends. None before the first one, and while the record may have its end."""
        self.first = log.last_id + 1
        """The position of the first message that this owner appends."""
        self.found_ms: int | None = None
        """When the message before it was stored, once that is known; 0 if it is gone."""
        self.start = 0
        """The position of its first message."""
        self.remote = remote
        """The positions of other regions."""
        self._last = log.last_id
        """The last position assigned."""
        self._bytes = 0
        self.stored_ms = 0
        """When the last message with a publisher was appended, in milliseconds since 1970; 0 for never."""
        self._outstanding: deque[_Append] | None = None
        """The appends on their way, in order; None instead of an empty deque, which would take 700 bytes a topic."""
        self.has_failed = False
        """Whether the log appends nothing now, or, after `end`, any more."""
        self._is_over = False

    @property
    def is_idle(self) -> bool:
        """Whether no append is on its way."""
        return not self._outstanding

    @property
    def is_empty(self) -> bool:
        """Whether the current ledger has no appends, and none is on its way there."""
        return self._last < self.start

    @property
    def is_full(self) -> bool:
        """Whether another ledger should follow the current one."""
        options = self._store.options
        return (
            0 < options.ledger_messages_max <= self._last - self.start + 1
            or 0 < options.ledger_bytes_max <= self._bytes
            or (self.ledger_id is not None and self._store.ledgers.is_spread(self.ledger_id))
        )

    def begin(self, ledger_id: int) -> None:
        """Append to this ledger from now on. No append may be on its way."""
        self.ledger_id = ledger_id
        self.start = self._log.last_id + 1
        self._bytes = 0

    def end(self) -> None:
        """Append no more, for good."""
        self.has_failed = self._is_over = True

    def append(self, message: Message, done: Published, publisher: Publisher | None, sequence: int) -> bool:
        """Append to the current ledger; return False if the message is refused for its content.

        Its publisher is told the position. If it has none, the hub does not recognise the message if it comes again.
        """
        local = self._last + 1
        region = self._store.region
        theirs = message.remote
        repeats = self._store.repeats
        if repeats.is_stale:
            repeats.refresh()
        if publisher is None:
            mark = repeats.stored_by_nobody
        else:
            self.stored_ms = repeats.stored_ms
            mark = publisher.begin + sequence.to_bytes(8, "little") + repeats.end
        if theirs or self.remote:
            remote = furthest(self.remote, theirs)
            try:
                check_bound(remote)
            except MalformedRequestError as exc:
                done(0, (), exc)
                return False
            self.remote = remote
            stored = message.accepted(MessageSeqId(local, self.remote), region, mark).encode()
        else:
            stored = message.stored_bytes(local, region, mark)
        assert self.ledger_id is not None
        future = self._store.ledgers.start_append(self.ledger_id, local - self.start, stored)
        self._last = local
        self._bytes += len(stored)
        if publisher is not None:
            publisher.place(sequence, local)
        if self._outstanding is None:
            self._outstanding = deque()
        self._outstanding.append((future, stored, self.remote, done))
        if future.done():
            # Refused at once. A publish after it would be out of order.
            self._appended(future)
        else:
            future.add_done_callback(self._appended)
        return True

    async def settle(self) -> None:
        """Wait for the appends on their way. Raises: TimeoutError."""
        async with asyncio.timeout(self._store.options.operation_timeout_s):
            while self._outstanding:
                settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                future, stored, remote, done = self._outstanding[-1]

                def tell(
                    local: int,
                    remote: tuple[RegionSeqId, ...],
                    error: HedwigError | None,
                    done: Published = done,
                    settled: "asyncio.Future[None]" = settled,
                ) -> None:
                    done(local, remote, error)
                    if not settled.done():
                        settled.set_result(None)

                self._outstanding[-1] = future, stored, remote, tell
                await settled

    def _appended(self, future: "asyncio.Future[None]") -> None:
        """Handle the known outcomes in order. A message that is surely not stored need not wait for those before it."""
        if not self.has_failed and not future.cancelled() and future.exception() is not None:
            self._take_back()
        while self._outstanding and self._outstanding[0][0].done():
            self._take(*self._outstanding.popleft())
        if not self._outstanding:
            self._outstanding = None

    def _take_back(self) -> None:
        """Refuse the last publishes if they are surely not stored, which frees their positions."""
        refused = 0
        for count, (future, *_) in enumerate(reversed(self._outstanding or ()), 1):
            error = future.exception() if future.done() and not future.cancelled() else None
            if isinstance(error, LedgerStoreUnavailableError | InvalidArgumentError) and error.happened == "no":
                refused = count
            elif not isinstance(error, EntryOrderError):
                break
        if not refused:
            return
        assert self._outstanding is not None
        taken = [self._outstanding.pop() for _ in range(refused)]
        self._last -= refused
        self._bytes -= sum(len(stored) for _, stored, _, _ in taken)
        refusal: HedwigError
        for future, _, _, done in reversed(taken):
            # A publish that was out of order failed because of the one before it, so it gets the same error.
            if isinstance(error := future.exception(), LedgerStoreUnavailableError | InvalidArgumentError):
                refusal = error
            done(0, (), refusal)
        self._log.on_refused(refusal, self._last)

    def _take(
        self, future: "asyncio.Future[None]", stored: bytes, remote: tuple[RegionSeqId, ...], done: Published
    ) -> None:
        error = asyncio.CancelledError() if future.cancelled() else future.exception()
        if error is None and not self.has_failed:
            self._log.on_stored(stored)
            done(self._log.last_id, remote, None)
        else:
            self._refuse(error, done)

    def _refuse(self, error: BaseException | None, done: Published) -> None:
        """Refuse a publish, and decide whether the topic can go on; `error` is None for one stored after a failure."""
        if isinstance(error, EntryOrderError) and self.has_failed:
            # The publish arrived before the log knew of the failure. It is surely not stored, so it may be tried again.
            refusal: HedwigError = ServiceDownError("a write before it failed; try again")
        elif isinstance(error, HedwigError):
            refusal = error
        else:
            why = f"its append ended with {error!r}" if error is not None else "it is stored behind one that is not"
            refusal = UncertainAnswerError(f"not known whether the message becomes part of the topic: {why}")
        first = not self.has_failed
        self.has_failed = True
        done(0, (), refusal)
        can_go_on = isinstance(refusal, LedgerStoreUnavailableError) if first else True
        if not (can_go_on and refusal.happened == "no"):
            # The message may be stored, or the ledger belongs to another hub: the topic must be claimed anew.
            self._log.on_failed(refusal)
            return
        if first:
            self._log.on_refused(refusal, self._log.last_id)
        if not self._outstanding and not self._is_over:
            # None of them was stored, so the positions are free again.
            self._last = self._log.last_id
            self.has_failed = False
            self._bytes = 0
