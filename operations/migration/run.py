"""One run of a migration: the copy, the changes during it, and the pause in which both sides are found equal.

If the source reports which records change (`changes`), everything is compared while hubs run. The pause then compares
only the records that changed since that comparison began. Else the pause compares everything.

A source may lose sight of its changes, as one in ZooKeeper does with each new connection. Then everything is compared
anew while hubs run. If that happens in the pause, the hubs are thawed for it, since operators expect no pause so long.
After a few losses the run fails, so that operators can mend the network or stop the hubs. If the hubs are down, no
client waits for the end of a pause, and the pause compares everything.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import click

from hedwig.errors import HedwigError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore
from hedwig.metadata.bulk.comparison import BUCKETS, StoreDigest
from hedwig.metadata.contract.changes import ChangesLostError, ChangesUnsupportedError
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.freezing import FreezeLostError, StoreFreeze, read_freeze
from hedwig.metadata.migration.run import Migration
from hedwig.operations.migration.following import FollowedChanges
from hedwig.operations.migration.hubs import MigrationHubs
from hedwig.operations.progress import load_progress, working

__all__ = ["MigrationRun"]

_CATCH_UP_ROUNDS: Final = 3
_FINAL_ROUNDS: Final = 5
_LOSSES_MAX: Final = 3
_MANY_BUCKETS: Final = BUCKETS // 8
"""If more buckets than this differ, their records are copied anew in bulk before they are compared one by one."""


class MigrationRun:
    """Runs `migration`. Counts records: `caught_up`, `mended`, `compared`, shared `logs`, `rules`, `users`."""

    def __init__(
        self,
        command: str,
        migration: Migration,
        source: MetadataStore,
        freeze: StoreFreeze,
        hubs: MigrationHubs | None,
    ) -> None:
        """`hubs`: None if the user said that there are none."""
        self._command = command
        self._migration = migration
        self._source = source
        self._freeze = freeze
        self._hubs = hubs
        changes = source.changes(migration.kinds)
        self._followed = None if changes is None else FollowedChanges(migration, changes)
        self._losses = 0
        self._total = 0
        self.caught_up = 0
        self.mended = 0
        self.compared = 0
        self.logs = 0
        self.rules = self.users = 0

    async def run(self, *, pauses: bool, catches_up: bool) -> float | None:
        """Copy, catch up, and pause; return how many seconds the pause took, None if there was none.

        Args: catches_up - whether records may have changed during the copy, if the source does not report changes.
        Raises: OperationError; HedwigError - a store did not answer. The hubs are thawed then, as far as they answer.
        """
        async with self._following():
            await self._copy()
            await self._compare_all(catches_up=catches_up)
            return await self._pause() if pauses else None

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        """Have the source report changes meanwhile."""
        followed = self._followed
        if followed is not None:
            try:
                await followed.begin()
            except ChangesUnsupportedError as exc:
                self._do_without(exc)
        try:
            yield
        finally:
            if followed is not None:
                with contextlib.suppress(HedwigError):  # The rest costs little, and the next migration removes it.
                    await followed.end()

    def _do_without(self, why: HedwigError) -> None:
        """Go on with a source that does not report changes."""
        self._followed = None
        click.echo(f"everything is compared in the pause: {why}", err=True)

    def _note_loss(self, why: ChangesLostError) -> None:
        """Count a loss of changes. Raise OperationError if the source has lost its changes too often."""
        self._losses += 1
        if self._losses <= _LOSSES_MAX:
            click.echo(f"everything is compared once more: {why}", err=True)
        elif self._hubs is None:
            self._do_without(why)
        else:
            raise OperationError(
                f"{self._command}: {why}. This happened {counted(self._losses, 'time')}, and each time everything "
                "has to be compared again. Mend the connection, or stop the hubs. Then run the command again, with "
                "--hubs-down if the hubs are stopped",
                ExitCode.UNAVAILABLE,
            ) from why

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
        """Compare everything and mend what differs, in a few rounds, since changes during a round are not known."""
        for number in range(_CATCH_UP_ROUNDS):
            source, target = await self._compare(f"comparing, {number + 1}")
            differing = source.differing(target)
            if not differing:
                break
            self.caught_up += await self._mend(differing)

    async def _compare_all(self, *, catches_up: bool) -> None:
        """Find everything equal on both sides, except for changes after the beginning of the last comparison."""
        mended = self._migration.reconciler.mended
        if self._followed is not None:
            with contextlib.suppress(ChangesLostError):  # The comparison below covers what was lost.
                await self._followed.catch_up()
        while self._followed is not None:
            try:
                await self._compare_followed(self._followed)
                break
            except ChangesLostError as exc:
                self._note_loss(exc)
            except ChangesUnsupportedError as exc:
                self._do_without(exc)
        self.caught_up += self._migration.reconciler.mended - mended
        if self._followed is None and catches_up:
            await self._catch_up()

    async def _compare_followed(self, followed: FollowedChanges) -> None:
        for number in range(_CATCH_UP_ROUNDS):
            await followed.begin()
            source, target = await self._compare(f"comparing, {number + 1}")
            differing = source.differing(target)
            if len(differing) > _MANY_BUCKETS and number < _CATCH_UP_ROUNDS - 1:
                self.caught_up += await self._mend(differing)
                continue
            if differing:
                await followed.settle_buckets(differing)
            break
        await followed.catch_up()

    # ------------------------------------------------------------------------------------------------- the pause

    async def _pause(self) -> float:
        """Stop all writes to the source, and make both sides equal; return how many seconds that took.

        If there are several pauses, return their sum.
        """
        seconds = 0.0
        while True:
            began = time.monotonic()
            try:
                await self._pause_once()
                return seconds + time.monotonic() - began
            except ChangesLostError as exc:
                seconds += time.monotonic() - began
                self._note_loss(exc)
            await self._compare_all(catches_up=True)

    async def _pause_once(self) -> None:
        """Stop all writes to the source, make both sides equal, and record in the source that it was moved.

        Raises: ChangesLostError - it is not known which records changed; the hubs go on.
        """
        reconciler = self._migration.reconciler
        compared, mended = reconciler.compared, reconciler.mended
        keeping: asyncio.Task[None] | None = None
        try:
            # A hub that registers from now on reads the freeze. The search below finds the hubs that registered before.
            await self._freeze.begin()
            keeping = asyncio.create_task(self._freeze.keep())
            if self._hubs is not None:
                await self._hubs.freeze()
            await self._bring_together(keeping)
            self.logs = await self._migration.move_logs()
            self.rules, self.users = await self._migration.move_access()
            await self._migration.prepare_target()
            await self._freeze.move()
        except BaseException as exc:
            await self._go_back()
            if isinstance(exc, FreezeLostError):
                raise OperationError(f"{self._command}: {exc}; give the command again") from exc
            raise
        finally:
            self.compared += reconciler.compared - compared
            self.mended += reconciler.mended - mended
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait([keeping])
        await self._migration.finish()

    async def _bring_together(self, keeping: "asyncio.Task[None]") -> None:
        for _ in range(_FINAL_ROUNDS):
            if keeping.done():
                keeping.result()
            number = await self._differences()
            # A hub that came, or came back, reads the freeze itself. But its last write may have taken effect.
            if not number and (self._hubs is None or not await self._hubs.freeze()):
                return
        raise OperationError(
            f"{self._command}: something still changes the source while hubs are frozen or down: after {_FINAL_ROUNDS} "
            "rounds both sides are not equal. Stop the hubs, or the program that writes there, and run the command "
            "again"
        )

    async def _differences(self) -> int:
        """Compare and mend what may differ; return how many records, or buckets, that were."""
        if self._followed is not None:
            try:
                return await self._followed.settle()
            except ChangesLostError as exc:
                if self._hubs is not None:
                    raise
                self._do_without(exc)
        return await self._compare_pause()

    async def _compare_pause(self) -> int:
        """Compare everything, and mend what differs; return how many buckets differ."""
        # After this read, any server of the source that we ask has all writes of the hubs from before their freeze.
        await read_freeze(self._source.named_records)
        source, target = await self._compare("verifying")
        differing = source.differing(target)
        self.compared += source.counts.total()
        if differing:
            self.mended += await self._mend(differing)
        return len(differing)

    async def _go_back(self) -> None:
        """Lift the freeze, and have the hubs go on at once."""
        try:
            await self._freeze.lift()
            if await self._freeze.is_moved():
                click.echo("no hub writes to the source any more; only the end of the migration is missing", err=True)
        except HedwigError as exc:
            lease_s = self._freeze.lease_s
            click.echo(
                f"the source may stay frozen for {lease_s:g} s more, which is how long hubs wait: {exc}", err=True
            )
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
        async with working(f"copying what changed in {counted(len(differing), 'bucket')}"):
            return await self._migration.mend(differing)
