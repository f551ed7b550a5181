"""The appends of a log to the ledger at hand: positions in order, and outcomes told in that order.

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
from hedwig.model import MessageSeqId, RegionSeqId
from hedwig.wire import Message

__all__ = ["Appends"]

_Append: TypeAlias = "tuple[asyncio.Future[None], bytes, tuple[RegionSeqId, ...], Published]"
"""An append on its way: its outcome, the message, how far other regions had come, and whom to tell."""


class _Log(Protocol):
    """The log whose appends these are."""

    last_id: int

    def on_stored(self, stored: bytes) -> None:
        """Take the message behind `last_id`, which has just become part of the topic."""
        ...

    def on_failed(self, error: HedwigError) -> None:
        """Append no more: only a new claim, which fences, tells what is in the ledger."""
        ...


class Appends:
    """What a log appends, from its first ledger on. `begin` is called with each ledger in turn."""

    __slots__ = (
        "_bytes",
        "_is_over",
        "_last",
        "_log",
        "_outstanding",
        "_store",
        "has_failed",
        "ledger_id",
        "remote",
        "start",
    )

    def __init__(self, store: LogContext, log: _Log, remote: tuple[RegionSeqId, ...]) -> None:
        self._store = store
        self._log = log
        self.ledger_id: int | None = None
        """The ledger that takes appends; None before the first one, and while it may have an end on record."""
        self.start = 0
        """The position of its first message."""
        self.remote = remote
        """How far other regions have come."""
        self._last = log.last_id
        """The last position that was given out."""
        self._bytes = 0
        self._outstanding: deque[_Append] | None = None
        """The appends on their way, in order."""
        self.has_failed = False
        """Whether nothing is appended now, or, after `end`, any more."""
        self._is_over = False

    @property
    def is_idle(self) -> bool:
        """Whether no append is on its way."""
        return not self._outstanding

    @property
    def is_empty(self) -> bool:
        """Whether nothing was appended to the ledger at hand, or is on its way there."""
        return self._last < self.start

    @property
    def is_full(self) -> bool:
        """Whether the ledger at hand is to be followed by another."""
        options = self._store.options
        return (
            0 < options.ledger_messages_max <= self._last - self.start + 1
            or 0 < options.ledger_bytes_max <= self._bytes
        )

    def begin(self, ledger_id: int) -> None:
        """Append to this ledger from now on; no append is on its way."""
        self.ledger_id = ledger_id
        self.start = self._log.last_id + 1
        self._bytes = 0

    def end(self) -> None:
        """Append no more, for good."""
        self.has_failed = self._is_over = True

    def append(self, message: Message, done: Published) -> bool:
        """Append to the ledger at hand; return False if the message is refused for what it says."""
        local = self._last + 1
        region = self._store.region
        theirs = message.remote
        if theirs or self.remote:
            remote = furthest(self.remote, theirs)
            try:
                check_bound(remote)
            except MalformedRequestError as exc:
                done(0, (), exc)
                return False
            self.remote = remote
            stored = message.accepted(MessageSeqId(local, self.remote), region).encode()
        else:
            stored = message.stored_bytes(local, region)
        assert self.ledger_id is not None
        future = self._store.ledgers.start_append(self.ledger_id, local - self.start, stored)
        self._last = local
        self._bytes += len(stored)
        if self._outstanding is None:
            self._outstanding = deque()
        self._outstanding.append((future, stored, self.remote, done))
        if future.done():
            # Refused at once; a publish behind it would be out of turn.
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
        """Take the outcomes that are there, in order; what was surely not stored need not wait for those before it."""
        if not self.has_failed and not future.cancelled() and future.exception() is not None:
            self._take_back()
        while self._outstanding and self._outstanding[0][0].done():
            self._take(*self._outstanding.popleft())

    def _take_back(self) -> None:
        """Refuse the last publishes if they are surely not stored: their positions are free again."""
        refused = 0
        for count, (future, *_) in enumerate(reversed(self._outstanding or ()), 1):
            error = future.exception() if future.done() and not future.cancelled() else None
            if isinstance(error, LedgerStoreUnavailableError | InvalidArgumentError) and error.definite:
                refused = count
            elif not isinstance(error, EntryOrderError):
                break
        if not refused:
            return
        assert self._outstanding is not None
        taken = [self._outstanding.pop() for _ in range(refused)]
        self._last -= refused
        self._bytes -= sum(len(stored) for _, stored, _, _ in taken)
        told: HedwigError
        for future, _, _, done in reversed(taken):
            # Those that were out of turn were so because of the one before them.
            if isinstance(error := future.exception(), LedgerStoreUnavailableError | InvalidArgumentError):
                told = error
            done(0, (), told)

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
        """Refuse a publish, and decide whether the topic can go on; `error` is None for one stored behind a failure."""
        if isinstance(error, EntryOrderError) and self.has_failed:
            # It came before the log had heard of the failure, and surely is not stored: its publisher may ask again.
            told: HedwigError = ServiceDownError("a write before it failed; try again")
        elif isinstance(error, HedwigError):
            told = error
        else:
            why = f"its append ended with {error!r}" if error is not None else "it is stored behind one that is not"
            told = UncertainAnswerError(f"not known whether the message becomes part of the topic: {why}")
        first = not self.has_failed
        self.has_failed = True
        done(0, (), told)
        can_go_on = isinstance(told, LedgerStoreUnavailableError) if first else True
        if not (can_go_on and told.definite):
            # Not known to be absent, or somebody else's: the topic has to be claimed anew.
            self._log.on_failed(told)
        elif not self._outstanding and not self._is_over:
            # Surely none of them was stored, so the positions are free again.
            self._last = self._log.last_id
            self.has_failed = False
            self._bytes = 0
