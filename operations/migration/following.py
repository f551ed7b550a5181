"""Follows the changes of a source during a migration. It compares and mends each changed record until it is equal."""

from typing import Final

from hedwig.metadata.contract.changes import ChangedRecord, Changes
from hedwig.metadata.migration.run import Migration
from hedwig.operations.progress import working

__all__ = ["FollowedChanges"]

_ROUNDS: Final = 20
_PAGE: Final = 2048
_FEW: Final = 500
"""At most this many changes are left to the pause. They take less time than the rest of a pause."""


class FollowedChanges:
    """The records that `changes` reports for the source of `migration`, until they are known to be in the target."""

    def __init__(self, migration: Migration, changes: Changes) -> None:
        self._migration = migration
        self._changes = changes
        self._left: set[ChangedRecord] = set()
        """Changed records that are not known to be equal yet."""

    async def begin(self) -> None:
        """Begin anew: follow the changes from now on. Raises as `Changes.begin`."""
        await self._changes.begin()
        self._left.clear()

    async def end(self) -> None:
        """Stop following changes. Raises as `Changes.end`."""
        await self._changes.end()

    async def settle_buckets(self, buckets: frozenset[int]) -> None:
        """Compare and mend the records of both sides in `buckets`, one by one."""
        async with working("comparing what changed"):
            self._left.update(await self._migration.settle_buckets(buckets))

    async def catch_up(self) -> None:
        """Bring the target up to date, until only few changes arrive during one round.

        Raises: ChangesLostError - it is not known which records were changed.
        """
        async with working("following the changes"):
            for _ in range(_ROUNDS):
                if await self._settle_changed() <= _FEW:
                    break

    async def settle(self) -> int:
        """Compare and mend the records that changed, or were not equal; return how many changed or are not equal yet.

        0: nothing changed since the last call, and everything was found equal.
        Raises: ChangesLostError - it is not known which records were changed.
        """
        number = await self._settle_changed()
        self._left = set(await self._migration.reconciler.settle(list(self._left)))
        return number + len(self._left)

    async def _settle_changed(self) -> int:
        """Compare and mend the changed records; return how many there were."""
        number = 0
        while taken := await self._changes.take(_PAGE):
            number += len(taken)
            # Add them before they are settled. If the settling fails, they count as not equal.
            self._left.update(taken)
            settled = set(taken).difference(await self._migration.reconciler.settle(taken))
            self._left.difference_update(settled)
            if len(taken) < _PAGE:
                break
        return number
