"""Following the changes of a source while it is migrated: each changed record is compared, mended and found equal."""

from typing import Final

from hedwig.metadata.contract.changes import ChangedRecord, Changes
from hedwig.metadata.migration.run import Migration
from hedwig.operations.progress import working

__all__ = ["FollowedChanges"]

_ROUNDS: Final = 20
_PAGE: Final = 2048
_FEW: Final = 500
"""So few changes are left to the pause: they take less time than what a pause takes anyhow."""


class FollowedChanges:
    """What `changes` tells of the source of `migration`, as far as it is not known to be in the target yet."""

    def __init__(self, migration: Migration, changes: Changes) -> None:
        self._migration = migration
        self._changes = changes
        self._left: set[ChangedRecord] = set()
        """Changed records that were not found equal yet."""

    async def begin(self) -> None:
        """Begin anew: what is changed from now on is followed. Raises as `Changes.begin`."""
        await self._changes.begin()
        self._left.clear()

    async def end(self) -> None:
        """Follow nothing more. Raises as `Changes.end`."""
        await self._changes.end()

    async def settle_buckets(self, buckets: frozenset[int]) -> None:
        """Compare and mend the records in `buckets`, of both sides, one by one."""
        async with working("comparing what changed"):
            self._left.update(await self._migration.settle_buckets(buckets))

    async def catch_up(self) -> None:
        """Bring the target up to what is changed, until few changes come while that is done.

        Raises: ChangesLostError - it is not known what was.
        """
        async with working("following the changes"):
            for _ in range(_ROUNDS):
                if await self._settle_changed() <= _FEW:
                    break

    async def settle(self) -> int:
        """Compare and mend what was changed, and was left; return how many records that were, or are not equal yet.

        None, if nothing was changed since the last call and everything was found equal.
        Raises: ChangesLostError - it is not known what was changed.
        """
        number = await self._settle_changed()
        self._left = set(await self._migration.reconciler.settle(list(self._left)))
        return number + len(self._left)

    async def _settle_changed(self) -> int:
        """Compare and mend the records that were changed; return how many that were."""
        number = 0
        while taken := await self._changes.take(_PAGE):
            number += len(taken)
            # Before it is known what becomes of them: if it ends in between, they count as not equal.
            self._left.update(taken)
            settled = set(taken).difference(await self._migration.reconciler.settle(taken))
            self._left.difference_update(settled)
            if len(taken) < _PAGE:
                break
        return number
