"""One run of a migration: the copy, what changes meanwhile, and the pause in which both sides are found equal.

Where the source tells which records are changed (metadata/changes.py), everything is compared while hubs go on, and in
the pause only what was changed since that comparison began, with everything known to be equal before. Elsewhere
everything is compared in the pause.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import click

from cli.errors import CommandError, counted
from cli.migration_hubs import MigrationHubs
from cli.progress import load_progress, working
from hedwig.errors import HedwigError
from metadata import MetadataStore
from metadata.changes import ChangedRecord, Changes
from metadata.comparison import BUCKETS, StoreDigest
from metadata.freezing import FreezeLostError, StoreFreeze
from metadata.kinds import OWNERSHIP
from metadata.migration import Migration

__all__ = ["MigrationRun"]

_CATCH_UP_ROUNDS: Final = 3
_FOLLOW_ROUNDS: Final = 20
_FINAL_ROUNDS: Final = 5
_PAGE: Final = 2048
_FEW: Final = 500
"""So few changes are left to the pause: they take less time than what a pause takes anyhow."""
_MANY_BUCKETS: Final = BUCKETS // 8
"""Where more differ, records are copied anew in bulk before they are looked at one by one."""


class MigrationRun:
    """Carries `migration` out. What it did is counted for the report: `caught_up`, `mended` and `compared` records."""

    def __init__(
        self,
        command: str,
        migration: Migration,
        source: MetadataStore,
        freeze: StoreFreeze,
        hubs: MigrationHubs | None,
    ) -> None:
        """`hubs`: None if it was said that there are none."""
        self._command = command
        self._migration = migration
        self._source = source
        self._freeze = freeze
        self._hubs = hubs
        self._changes: Changes | None = source.changes(migration.kinds)
        self._left: set[ChangedRecord] = set()
        """Changed records that were not found equal yet."""
        self._total = 0
        self.caught_up = 0
        self.mended = 0
        self.compared = 0

    async def run(self, *, pauses: bool, catches_up: bool) -> float | None:
        """Copy, catch up, and pause; return how many seconds the pause took, None if there was none.

        Args: catches_up - whether something may have been changed since, where the source does not tell.
        Raises: CommandError; HedwigError - a store did not answer. Hubs were thawed then, as far as they answer.
        """
        async with self._following():
            await self._copy()
            if self._changes is not None:
                await self._compare_all(self._changes)
            elif catches_up:
                await self._catch_up()
            return await self._pause() if pauses else None

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        """Have the source tell what is changed meanwhile."""
        if self._changes is None:
            yield
            return
        await self._changes.begin()
        try:
            yield
        finally:
            with contextlib.suppress(HedwigError):  # What is left costs little, and the next migration takes it away.
                await self._changes.end()

    # ------------------------------------------------------------------------------------------ while hubs go on

    async def _copy(self) -> None:
        migration = self._migration
        async with working("counting the records of the source"):
            counts = await self._source.count()
        self._total = sum(
            number for kind, number in counts.items() if kind != OWNERSHIP.name or OWNERSHIP in migration.kinds
        )
        with load_progress("copying", max(self._total, 1), noun="records") as progress:
            if migration.is_resumed:
                progress.say(f"going on with a migration that copied {migration.state.copied:,} records so far")
            progress.begin(migration.state.copied)
            await migration.copy(lambda rows: progress.advance(rows, migration.state.copied))

    async def _catch_up(self) -> None:
        """Compare everything and mend what differs, again and again; what changes meanwhile is not known."""
        for number in range(_CATCH_UP_ROUNDS):
            source, target = await self._compare(f"comparing, {number + 1}")
            differing = source.differing(target)
            if not differing:
                break
            self.caught_up += await self._mend(differing)

    async def _compare_all(self, changes: Changes) -> None:
        """Find everything equal on both sides, but for what is changed from the beginning of this on."""
        await self._follow(changes)
        for number in range(_CATCH_UP_ROUNDS):
            await changes.begin()
            self._left.clear()
            source, target = await self._compare(f"comparing, {number + 1}")
            differing = source.differing(target)
            if len(differing) > _MANY_BUCKETS and number < _CATCH_UP_ROUNDS - 1:
                self.caught_up += await self._mend(differing)
                continue
            if differing:
                async with working("comparing what changed"):
                    self._left.update(await self._migration.settle_buckets(differing))
            break
        await self._follow(changes)
        self.caught_up += self._migration.reconciler.mended

    async def _follow(self, changes: Changes) -> None:
        """Bring the target up to what is changed, until few changes come while that is done."""
        async with working("following the changes"):
            for _ in range(_FOLLOW_ROUNDS):
                if await self._settle_changes(changes) <= _FEW:
                    break

    async def _settle_changes(self, changes: Changes) -> int:
        """Compare and mend the records that were changed; return how many that were."""
        number = 0
        while taken := await changes.take(_PAGE):
            number += len(taken)
            # Before it is known what becomes of them: if it ends in between, they count as not equal.
            self._left.update(taken)
            self._left.difference_update(set(taken).difference(await self._settle(taken)))
            if len(taken) < _PAGE:
                break
        return number

    async def _settle(self, records: Sequence[ChangedRecord]) -> Sequence[ChangedRecord]:
        return await self._migration.reconciler.settle(records)

    # ------------------------------------------------------------------------------------------------- the pause

    async def _pause(self) -> float:
        """Have nobody write to the source, and bring both sides to be equal; return how many seconds that took."""
        began = time.monotonic()
        reconciler = self._migration.reconciler
        compared, mended = reconciler.compared, reconciler.mended
        keeping: asyncio.Task[None] | None = None
        try:
            # Whoever registers from now on sees the record; whoever did before is found.
            await self._freeze.begin()
            keeping = asyncio.create_task(self._freeze.keep())
            if self._hubs is not None:
                await self._hubs.freeze()
            await self._bring_together(keeping)
            await self._migration.prepare_target()
            await self._freeze.move()
        except BaseException as exc:
            await self._go_back()
            if isinstance(exc, FreezeLostError):
                raise CommandError(f"{self._command}: {exc}; give the command again") from exc
            raise
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait([keeping])
        seconds = time.monotonic() - began
        self.compared += reconciler.compared - compared
        self.mended += reconciler.mended - mended
        await self._migration.finish()
        return seconds

    async def _bring_together(self, keeping: "asyncio.Task[None]") -> None:
        for _ in range(_FINAL_ROUNDS):
            if keeping.done():
                keeping.result()
            number = await (self._compare_pause() if self._changes is None else self._settle_pause(self._changes))
            # A hub that came, or came back, is frozen by itself; but what it had under way may have come into effect.
            if not number and (self._hubs is None or not await self._hubs.freeze()):
                return
        raise CommandError(
            f"{self._command}: something still changes the source while hubs are frozen or down: after {_FINAL_ROUNDS} "
            "rounds both sides are not equal; stop the hubs, or what else writes there, and give the command again"
        )

    async def _compare_pause(self) -> int:
        """Compare everything, and mend what differs; return in how many places it does."""
        source, target = await self._compare("verifying")
        differing = source.differing(target)
        self.compared += source.counts.total()
        if differing:
            self.mended += await self._mend(differing)
        return len(differing)

    async def _settle_pause(self, changes: Changes) -> int:
        """Compare and mend what was changed; return how many records that were, or are not equal yet."""
        number = await self._settle_changes(changes)
        self._left = set(await self._settle(list(self._left)))
        return number + len(self._left)

    async def _go_back(self) -> None:
        """Lift the freeze, and have hubs go on at once."""
        try:
            await self._freeze.lift()
            if await self._freeze.is_moved():
                click.echo("nobody writes to the source any more; only the end of the migration is missing", err=True)
        except HedwigError as exc:
            lease_s = self._freeze.lease_s
            click.echo(f"the source may stay frozen for {lease_s:g} s more, which is what hubs wait: {exc}", err=True)
        if self._hubs is not None:
            for why in await self._hubs.thaw():
                click.echo(f"a hub may go on a moment later: {why}", err=True)

    # ------------------------------------------------------------------------------------------------- both

    async def _compare(self, title: str) -> tuple[StoreDigest, StoreDigest]:
        total = self._total
        with load_progress(title, max(2 * total, 1), noun="records") as progress:
            source, target = await self._migration.compare(
                lambda rows: progress.advance(rows, min(progress.rows + rows, 2 * total))
            )
        self._total = source.counts.total()
        return source, target

    async def _mend(self, differing: frozenset[int]) -> int:
        async with working(f"copying what changed in {counted(len(differing), 'place')}"):
            return await self._migration.mend(differing)
