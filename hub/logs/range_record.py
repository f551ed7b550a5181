"""The range record of a topic, as its log changes it: one change at a time, by compare-and-set.

A change of unknown outcome is in doubt until the log knows which version holds. No other change begins before that. A
refused change proves that another hub has the topic.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from hedwig.errors import (
    BadVersionError,
    HedwigError,
    MetadataError,
    NoRecordError,
    ServiceDownError,
    UncertainStateError,
)
from hedwig.hub.logs.ledger_ranges import dropped, to_store
from hedwig.hub.logs.log_context import LogContext
from hedwig.model import LedgerRange, LedgerRanges, Topic
from hedwig.names import show_name
from hedwig.versions import Version

__all__ = ["IsOwned", "RangeRecord"]

IsOwned: TypeAlias = Callable[[], Awaitable[bool]]
"""Reads from the metadata whether the claim under which the log was opened still holds. Raises: MetadataError."""


class RangeRecord:
    """The content of the record of one topic, and the only way by which its log changes it.

    `ranges` is the result of the newest change, also while that is under way or in doubt. Code must not rely on ranges
    that it drops. Once `is_lost` is set, another hub has changed the record. While `is_as_found` is set, that may be a
    late write of the former owner.
    """

    __slots__ = ("_before", "_is_over", "_store", "_topic", "_version", "is_as_found", "is_lost", "ranges")

    def __init__(self, store: LogContext, topic: Topic, ranges: LedgerRanges, version: Version) -> None:
        self._store = store
        self._topic = topic
        self.ranges = ranges
        self._version = version
        self._before: LedgerRanges | None = None
        """The ranges before a change that is under way or in doubt; None if there is none."""
        self._is_over = False
        self.is_as_found = False
        self.is_lost = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether the record may differ from `ranges`."""
        return self._before is not None

    async def change(
        self, function: Callable[[LedgerRanges], LedgerRanges], is_owned: IsOwned
    ) -> tuple[LedgerRange, ...]:
        """Write what `function` makes of the ranges, if it differs; return the ranges that surely left the record.

        This change dropped them, or the former one that was in doubt. The caller deletes their ledgers.

        Raises: UncertainStateError - this change is in doubt, or the former one is, and then this one has not begun;
            BadVersionError, NoRecordError - another hub has changed the record, or it is gone; ServiceDownError - `end`
            was called; another HedwigError - the change is surely not written.
        """
        async with self._store.record_turns.turn(self._topic):
            if self._is_over:
                raise ServiceDownError(f"topic '{show_name(self._topic)}' was released; try again")
            gone = await self._settle(is_owned)
            wanted = function(self.ranges)
            if wanted != self.ranges:
                gone += await self._write(to_store(wanted))
            return gone

    async def end(self, is_owned: IsOwned) -> tuple[LedgerRange, ...]:
        """Refuse changes after the one under way; return the ranges that a change in doubt dropped.

        Raises: UncertainStateError - a change stays in doubt, and may still take effect.
        """
        async with self._store.record_turns.turn(self._topic):
            self._is_over = True
            try:
                return await self._settle(is_owned)
            except UncertainStateError:
                if self.is_lost:  # The record is at another version, so no write of this log takes effect.
                    return ()
                raise

    async def _write(self, wanted: LedgerRanges) -> tuple[LedgerRange, ...]:
        before = self.ranges
        # Before the first await: a task that is cancelled there does not know the outcome.
        self._before, self.ranges = before, wanted
        try:
            self._version = await self._put(wanted)
        except UncertainStateError:
            raise
        except HedwigError as exc:
            self._before, self.ranges = None, before
            self.is_lost = isinstance(exc, BadVersionError | NoRecordError)
            raise
        self._before = None
        self.is_as_found = False
        return dropped(before, wanted)

    async def _settle(self, is_owned: IsOwned) -> tuple[LedgerRange, ...]:
        """Ensure that the change in doubt is on record; return the ranges that it dropped.

        It writes the change once more at the same version. If that succeeds, the former write never takes effect. If
        the store refuses it, the former write may have succeeded. It did if the record equals it and no other hub has
        claimed the topic.

        Raises: UncertainStateError - the change stays in doubt, for good if `is_lost`.
        """
        before = self._before
        if before is None:
            return ()
        try:
            self._version = await self._put(self.ranges)
        except BadVersionError as refused:
            current = refused.current
            if current is None or current.value != self.ranges or not await self._holds(is_owned):
                self.is_lost = True
                raise self._in_doubt(refused) from refused
            self._version = current.version
            self._store.recorded(each.ledger_id for each in self.ranges.ranges)
        except NoRecordError as exc:
            self.is_lost = True
            raise self._in_doubt(exc) from exc
        except HedwigError as exc:
            # That this attempt surely failed says nothing about the former one.
            raise self._in_doubt(exc) from exc
        self._before = None
        return dropped(before, self.ranges)

    async def _holds(self, is_owned: IsOwned) -> bool:
        """Return whether this hub still owns the topic. Raises: UncertainStateError - the metadata cannot tell."""
        try:
            return await is_owned()
        except MetadataError as exc:
            raise self._in_doubt(exc) from exc

    async def _put(self, ranges: LedgerRanges) -> Version:
        version = await self._store.persistence.write(self._topic, ranges, self._version)
        self._store.recorded(each.ledger_id for each in ranges.ranges)
        return version

    def _in_doubt(self, exc: HedwigError) -> UncertainStateError:
        return UncertainStateError(
            f"an earlier change of the ranges of topic '{show_name(self._topic)}' had no answer, and its outcome is "
            f"unknown: {exc}"
        )
