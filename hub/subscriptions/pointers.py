"""Consume pointers on their way to the metadata: many at a time, and none later than promised.

A crash forgets at most what was consumed since the last write: fewer than `consume_interval` messages of a
subscription, and nothing older than `consume_flush_s`.
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
    """Stores consume pointers, by compare-and-set, in the turn of their subscription."""

    def __init__(
        self,
        options: HubOptions,
        manager: SubscriptionDataManager,
        turns: KeyedLock,
        clock: Clock,
        on_deleted: Callable[[Subscription], None],
        gate: WriteGate | None = None,
    ) -> None:
        """`on_deleted` is told of a subscription that somebody deleted behind the hub's back.

        While `gate` is closed, pointers stay in memory; there is one for each subscription there, however often it
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
        """Pointers that are stored before the next flush."""
        self.stored = 0

    def moved(self, subscription: Subscription) -> None:
        """Take note that a consume pointer moved."""
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
        """Whether nothing can be stored now."""
        return self._gate is not None and self._gate.why_closed is not None

    def forget(self, subscription: Subscription) -> None:
        """Store nothing for a subscription any more."""
        self._dirty.pop(subscription, None)
        self._due.pop(subscription, None)

    @property
    def waiting(self) -> int:
        return len(self._dirty) + len(self._due)

    async def run(self) -> None:
        """Store what is due, until cancelled; then what waits for its turn is not waited for."""
        flush_at = self._clock.monotonic() + self._options.consume_flush_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, flush_at - self._clock.monotonic())):
                    await self._is_due.wait()
            # Not only after a timeout: there is none while something is always due.
            if self._clock.monotonic() >= flush_at:
                flush_at = self._clock.monotonic() + self._options.consume_flush_s
                self._due.update(self._dirty)
                self._dirty.clear()
            self._is_due.clear()
            due, self._due = self._due, {}
            try:
                await self.store(list(due))
            except Exception:
                # A defect of ours; the pointers stay in memory, and the next one that moves brings this about again.
                _log.exception("consume pointers could not be stored")

    async def flush(self) -> None:
        """Store all that moved, but for what waits for its turn."""
        self._due.update(self._dirty)
        self._dirty.clear()
        due, self._due = self._due, {}
        await self.store(list(due))

    async def store(self, subscriptions: Sequence[Subscription]) -> None:
        """Store the consume pointers of `subscriptions`; what fails is tried again at the next flush."""
        if self.is_frozen:
            self._dirty.update((subscription, None) for subscription in subscriptions if subscription.is_dirty)
            return
        for start in range(0, len(subscriptions), _BATCH):
            batch: list[Subscription] = []
            turns: set[tuple[bytes, bytes]] = set()
            for subscription in subscriptions[start : start + _BATCH]:
                turn = _turn(subscription)
                if turn in turns or self._turns.is_taken(turn):
                    # Whoever has the turn may change the version; the many do not wait for one.
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
        """Store one consume pointer when it is its turn: it is too far ahead to wait for the next flush."""
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
            await turn.__aenter__()  # Free, as was just seen, so nothing waits here.
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
        """Leave what is not stored to the next flush, unless the subscription was let go meanwhile: then it is lost."""
        if subscription.is_dirty and subscription.topic.subscription(subscription.subscriber) is subscription:
            self._dirty[subscription] = None

    def _stored(self, subscription: Subscription, consumed: int) -> None:
        subscription.stored = max(subscription.stored, consumed)
        subscription.topic.is_to_collect = True
        self.stored += 1

    def _refused(self, subscription: Subscription, error: HedwigError) -> None:
        """Learn from a write that was not done, or may not have been."""
        match error:
            case BadVersionError(current=Versioned() as current):
                self.adopt(subscription, current)
            case NoRecordError():
                subscription.version = None
                self.forget(subscription)
                self._on_deleted(subscription)
            case _:
                # Unknown or not done: the next try finds out, since a refusal says what is there.
                _log.warning("%s: its consume pointer is not stored yet: %s", subscription, error)

    @staticmethod
    def adopt(subscription: Subscription, current: Versioned[SubscriptionData]) -> None:
        """Go on from a record that somebody else wrote, or that a write of ours of unknown outcome left."""
        subscription.version = current.version
        if current.value.state is not None:
            subscription.stored = current.value.state.consumed.local
            subscription.consume(current.value.state.consumed)
        if current.value.preferences is not None:
            # Not kept, since they may be large. Whoever needs them reads them.
            subscription.preferences = None

    async def store_now(self, subscription: Subscription) -> None:
        """Store one consume pointer, in a turn that the caller has.

        Raises: MetadataError - not stored, or not known.
        """
        refusals = 0
        # It may move on meanwhile, and each round stores what there is; only refusals are a reason to stop.
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
                raise ServiceDownError(f"{subscription} is changed by others at the same time")
        self.forget(subscription)


def _turn(subscription: Subscription) -> tuple[bytes, bytes]:
    return subscription.topic.name, subscription.subscriber


def _write(subscription: Subscription) -> Write[SubscriptionData]:
    assert subscription.version is not None, "only a subscription that is kept is dirty"
    key = RecordKey(subscription.topic.name, subscription.subscriber)
    return Write(key, SubscriptionData(state=subscription.state), subscription.version, merge=True)
