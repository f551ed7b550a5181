"""The range record of a topic, as the log that owns the topic changes it: one change at a time, by compare-and-set.

A change of unknown outcome is in doubt until it is known which version holds; no other change begins before that. A
refused change proves that somebody else has the topic.
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
"""Asks the metadata whether the claim still holds under which the log was opened. Raises: MetadataError."""


class RangeRecord:
    """What the record of one topic says, and the only way by which its log changes that.

    `ranges` is the outcome of the newest change, also while that is under way or in doubt: what it drops cannot be
    relied on any more. Once `is_lost` is set, somebody else has changed the record.
    """

    __slots__ = ("_before", "_is_over", "_store", "_topic", "_version", "is_lost", "ranges")

    def __init__(self, store: LogContext, topic: Topic, ranges: LedgerRanges, version: Version) -> None:
        self._store = store
        self._topic = topic
        self.ranges = ranges
        self._version = version
        self._before: LedgerRanges | None = None
        """What the record said before a change that is under way or in doubt; None if there is none."""
        self._is_over = False
        self.is_lost = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether the record may say something else than `ranges`."""
        return self._before is not None

    async def change(
        self, function: Callable[[LedgerRanges], LedgerRanges], is_owned: IsOwned
    ) -> tuple[LedgerRange, ...]:
        """Write what `function` makes of the ranges, if that differs; return what surely is not on record any more.

        Each range that is returned was dropped by this change, or by the one before it that was in doubt, and the
        caller deletes its ledger.

        Raises: UncertainStateError - in doubt, this change or the one before it, in which case this one is not begun;
            BadVersionError, NoRecordError - it is somebody else's, or gone; ServiceDownError - `end` was called;
            another HedwigError - surely not written, and nothing has changed.
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
        """Change nothing from now on, after the change under way; return what a change that was in doubt dropped.

        Raises: UncertainStateError - that stays in doubt, and it may take effect yet.
        """
        async with self._store.record_turns.turn(self._topic):
            self._is_over = True
            try:
                return await self._settle(is_owned)
            except UncertainStateError:
                if self.is_lost:  # At another version, nothing of this log takes effect.
                    return ()
                raise

    async def _write(self, wanted: LedgerRanges) -> tuple[LedgerRange, ...]:
        before = self.ranges
        # Before anything is awaited: whoever is cancelled there does not know the outcome.
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
        return dropped(before, wanted)

    async def _settle(self, is_owned: IsOwned) -> tuple[LedgerRange, ...]:
        """Have the change that is in doubt on record, whatever became of it so far; return what it dropped.

        It is written once more at the same version. If that is done, the former write never takes effect. If it is
        refused, the former write may have been done: so it was, if the record says the same and nobody else has claimed
        the topic.

        Raises: UncertainStateError - it stays in doubt, for good if `is_lost`.
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
            # That this attempt was surely not carried out says nothing of the former one.
            raise self._in_doubt(exc) from exc
        self._before = None
        return dropped(before, self.ranges)

    async def _holds(self, is_owned: IsOwned) -> bool:
        """Ask whether the topic is owned. Raises: UncertainStateError."""
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
            f"a former change of the ranges of topic '{show_name(self._topic)}' had no answer, and what became of it "
            f"cannot be told: {exc}"
        )
