"""Consume pointers on their way to the metadata: stored in batches, and none later than promised.

A crash loses at most the consumes since the last write. These are fewer than `consume_interval` messages of a
subscription, and none is older than `consume_flush_s`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.clock import Clock
from hedwig.concurrency.keyed_lock import KeyedLock
from hedwig.concurrency.tasks import Tasks
from hedwig.errors import BadVersionError, HedwigError, MetadataError, NoRecordError, ServiceDownError
from hedwig.hub.options.options import HubOptions
from hedwig.hub.topics.topic import Subscription
from hedwig.metadata import Outcome, RecordKey, SubscriptionDataManager, Write, WriteGate
from hedwig.model import SubscriptionData
from hedwig.versions import Versioned

__all__ = ["Pointers"]

_log = logging.getLogger(__name__)

_BATCH: Final = 512
_TRIES: Final = 4


class Pointers:
    """Stores consume pointers by compare-and-set, each while it holds the lock of its subscription."""

    def __init__(
        self,
        options: HubOptions,
        manager: SubscriptionDataManager,
        turns: KeyedLock,
        clock: Clock,
        on_deleted: Callable[[Subscription], None],
        gate: WriteGate | None = None,
    ) -> None:
        """`on_deleted` is called with a subscription whose record another program has deleted.

        While `gate` is closed, pointers stay in memory. There is one for each subscription in memory, however often it
        moves.
        """
        self._options = options
        self._manager = manager
        self._turns = turns
        self._clock = clock
        self._on_deleted = on_deleted
        self._gate = gate
        self._dirty: dict[Subscription, None] = {}
        self._due: dict[Subscription, None] = {}
        self._is_due = asyncio.Event()
        self.tasks = Tasks()
        """The tasks that store a pointer before the next flush."""
        self.stored = 0

    def moved(self, subscription: Subscription) -> None:
        """Record that a consume pointer moved."""
        if not subscription.is_dirty:
            return
        if self._is_due_now(subscription):
            self._due[subscription] = None
            self._is_due.set()
        else:
            self._dirty[subscription] = None

    def _is_due_now(self, subscription: Subscription) -> bool:
        behind = subscription.consumed - subscription.stored
        return subscription.is_dirty and behind >= self._options.consume_interval and not self.is_frozen

    @property
    def is_frozen(self) -> bool:
        """Whether no pointer can be stored now."""
        return self._gate is not None and self._gate.why_closed is not None

    def forget(self, subscription: Subscription) -> None:
        """Drop the unstored pointer of a subscription."""
        self._dirty.pop(subscription, None)
        self._due.pop(subscription, None)

    @property
    def waiting(self) -> int:
        return len(self._dirty) + len(self._due)

    async def run(self) -> None:
        """Store the due pointers, until cancelled. Pointers that then wait for their lock are not stored."""
        flush_at = self._clock.monotonic() + self._options.consume_flush_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, flush_at - self._clock.monotonic())):
                    await self._is_due.wait()
            # Not only after a timeout: there is no timeout while some pointer is always due.
            if self._clock.monotonic() >= flush_at:
                flush_at = self._clock.monotonic() + self._options.consume_flush_s
                self._due.update(self._dirty)
                self._dirty.clear()
            self._is_due.clear()
            due, self._due = self._due, {}
            try:
                await self.store(list(due))
            except Exception:
                # A defect of ours. The pointers stay in memory, and the next move of one tries again.
                _log.exception("consume pointers could not be stored")

    async def flush(self) -> None:
        """Store all moved pointers, except those whose subscription is locked."""
        self._due.update(self._dirty)
        self._dirty.clear()
        due, self._due = self._due, {}
        await self.store(list(due))

    async def store(self, subscriptions: Sequence[Subscription]) -> None:
        """Store the consume pointers of `subscriptions`; try those that fail again at the next flush."""
        if self.is_frozen:
            self._dirty.update((subscription, None) for subscription in subscriptions if subscription.is_dirty)
            return
        for start in range(0, len(subscriptions), _BATCH):
            batch: list[Subscription] = []
            turns: set[tuple[bytes, bytes]] = set()
            for subscription in subscriptions[start : start + _BATCH]:
                turn = _turn(subscription)
                if turn in turns or self._turns.is_taken(turn):
                    # The holder of the lock may change the version, and the batch does not wait for one pointer.
                    if self._is_due_now(subscription):
                        self.tasks.start(self._store_in_turn(subscription))
                    else:
                        self._leave(subscription)
                elif subscription.is_dirty:
                    turns.add(turn)
                    batch.append(subscription)
            if batch:
                await self._store_batch(batch)

    async def _store_in_turn(self, subscription: Subscription) -> None:
        """Store one consume pointer once its lock is free, because it is too far ahead to wait for the next flush."""
        async with self._turns.turn(_turn(subscription)):
            try:
                await self.store_now(subscription)
            except HedwigError as exc:
                _log.warning("%s: its consume pointer is not stored yet: %s", subscription, exc)
            finally:
                self._leave(subscription)

    async def _store_batch(self, batch: Sequence[Subscription]) -> None:
        writes = [_write(subscription) for subscription in batch]
        moved_to = [subscription.consumed for subscription in batch]
        taken = [self._turns.turn(_turn(subscription)) for subscription in batch]
        for turn in taken:
            await turn.__aenter__()  # `store` has just found it free, so this does not wait.
        try:
            outcomes = await self._manager.apply(writes)
        except HedwigError as exc:
            outcomes = [Outcome(error=exc)] * len(batch)
        except Exception as exc:
            _log.exception("consume pointers could not be stored")
            outcomes = [Outcome(error=MetadataError(f"the hub failed: {exc!r}"))] * len(batch)
        finally:
            for turn in taken:
                await turn.__aexit__(None, None, None)
        for subscription, consumed, outcome in zip(batch, moved_to, outcomes, strict=True):
            self._take(subscription, consumed, outcome)

    def _take(self, subscription: Subscription, consumed: int, outcome: Outcome[SubscriptionData]) -> None:
        if outcome.error is None:
            subscription.version = outcome.written()
            self._stored(subscription, consumed)
            return
        self._refused(subscription, outcome.error)
        self._leave(subscription)

    def _leave(self, subscription: Subscription) -> None:
        """Leave an unstored pointer to the next flush. It is lost if the subscription was dropped meanwhile."""
        if subscription.is_dirty and subscription.topic.subscription(subscription.subscriber) is subscription:
            self._dirty[subscription] = None

    def _stored(self, subscription: Subscription, consumed: int) -> None:
        subscription.stored = max(subscription.stored, consumed)
        subscription.topic.is_to_collect = True
        self.stored += 1

    def _refused(self, subscription: Subscription, error: HedwigError) -> None:
        """Handle a write that was refused, or whose outcome is unknown."""
        match error:
            case BadVersionError(current=Versioned() as current):
                self.adopt(subscription, current)
            case NoRecordError():
                subscription.version = None
                self.forget(subscription)
                self._on_deleted(subscription)
            case _:
                # Unknown or not done: the next try finds out, because a refusal returns the present record.
                _log.warning("%s: its consume pointer is not stored yet: %s", subscription, error)

    @staticmethod
    def adopt(subscription: Subscription, current: Versioned[SubscriptionData]) -> None:
        """Take over a record that another program wrote, or that a write of ours with unknown outcome left."""
        subscription.version = current.version
        if current.value.state is not None:
            subscription.stored = current.value.state.consumed.local
            subscription.consume(current.value.state.consumed)
        if current.value.preferences is not None:
            # Not kept in memory, since they may be large. Code that needs them reads them.
            subscription.preferences = None

    async def store_now(self, subscription: Subscription) -> None:
        """Store one consume pointer; the caller must hold the lock of the subscription.

        Raises: MetadataError - the pointer is not stored, or that is unknown; ServiceDownError - others keep changing
            the record.
        """
        refusals = 0
        # The pointer may move meanwhile, and each round stores its present value. Only refusals are a reason to stop.
        while subscription.is_dirty:
            consumed, write = subscription.consumed, _write(subscription)
            (outcome,) = await self._manager.apply([write])
            if outcome.error is None:
                subscription.version = outcome.written()
                self._stored(subscription, consumed)
                continue
            if not isinstance(outcome.error, BadVersionError | NoRecordError):
                raise outcome.error
            self._refused(subscription, outcome.error)
            refusals += 1
            if refusals == _TRIES:
                raise ServiceDownError(f"other programs change {subscription} at the same time")
        self.forget(subscription)


def _turn(subscription: Subscription) -> tuple[bytes, bytes]:
    return subscription.topic.name, subscription.subscriber


def _write(subscription: Subscription) -> Write[SubscriptionData]:
    assert subscription.version is not None, "only a subscription that is kept is dirty"
    key = RecordKey(subscription.topic.name, subscription.subscriber)
    return Write(key, SubscriptionData(state=subscription.state), subscription.version, merge=True)
