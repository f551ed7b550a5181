"""The command `hedwig-admin metadata repair`: repairs findings of a check, each by compare-and-set on what it saw."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.commands.metadata.check import (
    CheckOptions,
    Surroundings,
    check_options,
    limited,
    surroundings,
    tell_unchecked,
)
from hedwig.cli.commands.metadata.finding_fields import COLUMNS, finding_fields
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.human_units import counted
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.metadata.bulk.repairs import RepairResult
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.operations.checks.local_orphans import LocalOrphans
from hedwig.operations.checks.reported import ONLY_WHEN_NAMED, Reported, Severity
from hedwig.operations.checks.store_check import StoreCheck
from hedwig.operations.checks.store_repair import StoreRepair
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import watching
from hedwig.operations.progress import load_progress

__all__ = ["repair", "repair_store"]

_SHOWN: Final = ("result", "kind", "topic", "what")
_ROWS: Final = 25
"""The number of repairs in one batch of rows."""
_WOULD: Final = "would be repaired"
_DOES: Final[Mapping[FindingKind, tuple[str, str]]] = {
    FindingKind.DEAD_OWNER: ("owner record", "of dead hubs to delete"),
    FindingKind.LONE_SUBSCRIPTION: ("subscription", "to set to 0, with topics to make"),
    FindingKind.RANGE_OVERLAP: ("record", "of overlapping ledger ranges to write anew"),
    FindingKind.RANGE_GAP: ("record", "of ledger ranges with gaps to write anew"),
    FindingKind.UNREADABLE_RECORD: ("unreadable record", "to delete for good"),
    FindingKind.MISSING_LEDGER: ("record", "to rid of lost ledgers"),
    FindingKind.ORPHAN_LEDGER: ("ledger", "to delete for good"),
    FindingKind.UNINDEXED_SUBSCRIPTION: ("subscription", "to enter into the index"),
    FindingKind.STRAY_INDEX_ENTRY: ("index entry", "to remove"),
}


@click.command("repair", cls=AdminCommand, example="hedwig-admin metadata repair --dry-run")
@check_options()
@deployment_options(admin="the standalone hub", ledgers=True)
@click.option("--dry-run", is_flag=True, help="Show what would be repaired, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def repair_store(
    settings: Settings,
    /,
    options: CheckOptions,
    deployment: Deployment,
    dry_run: bool,
    yes: bool,
) -> int:
    """Repair findings of `metadata check`, if there is no doubt how; hubs may run meanwhile.

    The command looks first, says what it would do and to how many records, and asks. Then it looks again and repairs,
    never more than it said. It changes a record only if the record is still as it was seen. Unreadable records, and
    records of lost ledgers, are repaired only if --kind names them, since that gives data up.

    Exit codes: 0 nothing critical is left, 2 critical findings are left, which it cannot repair; see metadata check.
    """
    return repair(settings, options, deployment, dry_run=dry_run, yes=yes)


def repair(
    settings: Settings,
    options: CheckOptions,
    deployment: Deployment,
    *,
    dry_run: bool,
    yes: bool,
) -> int:
    """Run a repair as a command, and return its exit code.

    Raises: OperationError - it cannot be done, or was not confirmed.
    """
    output = settings.writer()
    return asyncio.run(_Repairing(output, options, deployment).run(dry_run=dry_run, yes=yes))


class _Repairing:
    """One run of the command."""

    def __init__(self, output: Output, options: CheckOptions, deployment: Deployment) -> None:
        self._deployment = deployment
        self._output = output
        # Look for all kinds, since the operator needs to know what remains.
        self._options = replace(options, kinds=options.kinds or tuple(FindingKind))
        self._is_named = options.is_any_named
        self._left: Counter[Severity] = Counter()
        """The number of findings that remain, by severity."""

    async def run(self, *, dry_run: bool, yes: bool) -> int:
        """Look, ask and repair; return the exit code."""
        async with surroundings(self._deployment, self._options.kinds) as around:
            if dry_run:
                self._begin()
                planned = await self._look(around, is_shown=True)
                self._output.end_described()
                click.echo(f"would repair: {_spelled(planned)}; nothing was changed{self._what_is_left()}", err=True)
                return self._code()
            done = await watching(
                self._deployment, around.store, lambda watch: self._look_and_repair(around, watch, yes=yes)
            )
        if done is None:
            click.echo(f"nothing to repair{self._what_is_left()}", err=True)
        else:
            click.echo(
                f"repaired {done[RepairResult.REPAIRED]:,}; changed by others meanwhile, and left as it is now: "
                f"{done[RepairResult.CHANGED]:,}{self._what_is_left() or '; left: 0'}",
                err=True,
            )
        return self._code()

    def _what_is_left(self) -> str:
        critical = self._left[Severity.CRITICAL]
        left = critical + self._left[Severity.WARNING]  # A note may be in order.
        if not left:
            return ""
        of_them = f", {critical:,} of them critical" if critical else ""
        return f"; left: {left:,}{of_them}; see them with: hedwig-admin metadata check"

    def _code(self) -> int:
        return int(Severity.CRITICAL) if self._left[Severity.CRITICAL] else 0

    async def _look_and_repair(
        self, around: Surroundings, watch: FreezeWatch, *, yes: bool
    ) -> Counter[RepairResult] | None:
        """Return the number of repairs by result; None if there was nothing to repair."""
        planned = await self._look(around, is_shown=False)
        if not planned.total():
            self._begin()
            self._output.end_described()
            return None
        if not yes:
            await asyncio.to_thread(confirm, f"this repairs in {self._deployment.url_to_show}: {_spelled(planned)}")
        self._begin()
        done = await self._repair(around, planned, watch)
        self._output.end_described()
        return done

    def _begin(self) -> None:
        self._output.begin("repairs", ("result", *COLUMNS), _SHOWN)

    async def _look(self, around: Surroundings, *, is_shown: bool) -> Counter[FindingKind]:
        """Return the number of findings of each kind that can be repaired."""
        planned: Counter[FindingKind] = Counter()
        with load_progress("checking", None, noun="records", is_shared=sys.stdout.isatty()) as progress:
            check = around.check(
                self._options.kinds, self._options.prefix, lambda records: progress.advance(records, 0)
            )
            async with aclosing(limited(check, self._options.limit)) as pages:
                async for page in pages:
                    planned.update(reported.finding.kind for reported in page if self._mends(reported))
                    self._left.update(reported.severity for reported in page if not self._mends(reported))
                    if is_shown:
                        self._output.page([self._row(reported, _WOULD) for reported in page])
        self._check_looked(check, planned)
        tell_unchecked(check)
        return planned

    def _check_looked(self, check: StoreCheck, planned: Mapping[FindingKind, int]) -> None:
        """Raise OperationError if a named kind could not be checked, or the ledgers seem to be the wrong ones."""
        if self._is_named and check.unchecked:
            kind, why = next(iter(check.unchecked.items()))
            raise OperationError(f"{self._deployment.command}: cannot look for {kind}: {why}; nothing was changed")
        if planned[FindingKind.MISSING_LEDGER] and not check.existing_ledgers:
            raise OperationError(
                f"{self._deployment.command}: no ledger on record exists; see that --data or --bookkeeper names what "
                "the hubs use; nothing was changed"
            )

    async def _repair(
        self, around: Surroundings, planned: Counter[FindingKind], watch: FreezeWatch
    ) -> Counter[RepairResult]:
        """Repair what the check finds now, of each kind at most the planned number; return how many of each result."""
        done: Counter[RepairResult] = Counter()
        left = Counter(planned)
        self._left.clear()  # Count anew, as things are now.
        async with AsyncExitStack() as stack:
            orphans = None
            if around.local is not None:
                orphans = LocalOrphans(self._deployment, around.store, around.local)
                stack.push_async_callback(orphans.aclose)
            mending = StoreRepair(around.store, around.verdicts, around.known, orphans)
            await self._repair_all(around, mending, left, watch, done)
        return done

    async def _repair_all(
        self,
        around: Surroundings,
        mending: StoreRepair,
        left: Counter[FindingKind],
        watch: FreezeWatch,
        done: Counter[RepairResult],
    ) -> None:
        planned = Counter(left)
        with load_progress("repairing", None, noun="records", is_shared=sys.stdout.isatty()) as progress:
            check = around.check(
                # Read all ledgers only if there are some to delete.
                [kind for kind in self._options.kinds if planned[kind] or kind is not FindingKind.ORPHAN_LEDGER],
                self._options.prefix,
                lambda records: progress.advance(records, 0),
            )
            async with aclosing(check.findings()) as pages:
                async for page in pages:
                    orphans = [reported for reported in page if reported.finding.kind is FindingKind.ORPHAN_LEDGER]
                    if able := list(filter(self._mends, orphans))[: left[FindingKind.ORPHAN_LEDGER]]:
                        await watch.carry_out(partial(mending.begin, able))
                    for start in range(0, len(page), _ROWS):
                        await self._carry_out(mending, watch, page[start : start + _ROWS], left, done)
                    if self._options.limit is not None and not left.total():
                        break
            await watch.carry_out(mending.end)

    async def _carry_out(
        self,
        repair: StoreRepair,
        watch: FreezeWatch,
        page: Sequence[Reported],
        left: Counter[FindingKind],
        done: Counter[RepairResult],
    ) -> None:
        rows: list[dict[str, Any]] = []
        try:
            for reported in page:
                is_mended = self._mends(reported)
                if is_mended and not left[reported.finding.kind]:
                    continue  # This would exceed the number that the user confirmed.
                result = RepairResult.LEFT
                if is_mended:
                    result = await watch.carry_out(partial(repair.carry_out, reported))
                left[reported.finding.kind] -= is_mended
                done[result] += 1
                self._left[reported.severity] += result is RepairResult.LEFT
                rows.append(self._row(reported, result.value))
        finally:
            # If one of them fails, those before it are done.
            self._output.page(rows)

    def _mends(self, reported: Reported) -> bool:
        """Say whether to repair a finding: it can be repaired, and the user named its kind if that is needed."""
        return reported.is_repairable and (self._is_named or reported.finding.kind not in ONLY_WHEN_NAMED)

    def _row(self, reported: Reported, result: str) -> dict[str, Any]:
        return {"result": result if self._mends(reported) else RepairResult.LEFT.value, **finding_fields(reported)}


def _spelled(planned: Mapping[FindingKind, int]) -> str:
    parts = []
    for kind, number in planned.items():
        noun, does = _DOES[kind]
        parts.append(f"{counted(number, noun)} {does}")
    return ", ".join(parts) or "nothing"
