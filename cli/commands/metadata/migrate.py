"""The command `hedwig-admin metadata migrate`: moves all metadata from one store to another, of any backends."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import CheckedName
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.configuration import SETTINGS
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.clock import SystemClock
from hedwig.errors import HedwigError, OperationError, exit_code_of
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.freezing import StoreFreeze
from hedwig.metadata.migration.run import Migration, MigrationError
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.errors import explain
from hedwig.operations.migration.hubs import MigrationHubs
from hedwig.operations.migration.options import MigrationOptions
from hedwig.operations.migration.plan import MigrationPlan
from hedwig.operations.migration.run import MigrationRun

__all__ = ["migrate_store"]

_LEASE_S: Final = 15.0
"""After a migration was killed in the pause, hubs go on when this lease ends."""


@click.command(
    "migrate",
    cls=AdminCommand,
    example="hedwig-admin metadata migrate --from sqlite:///./hedwig.db --to sqlite:///./moved.db --yes",
)
@click.option("--from", "source", required=True, metavar="URL", help="The store to read.")
@click.option("--to", "target", required=True, metavar="URL", help="The store to fill: formatted, and empty.")
@click.option("--with-owners", is_flag=True, help="Copy owner records too: only for hubs that keep their epochs.")
@deployment_options()
@click.option(
    "--hub-admin",
    "admins",
    type=CheckedName("address", SETTINGS["admin"].check),
    multiple=True,
    metavar="HOST:PORT",
    help="Admin endpoint of a running hub that no cluster announces; may be given again.",
)
@click.option("--hubs-down", is_flag=True, help="State that no hub uses the source; no hub is asked.")
@click.option("--no-pause", is_flag=True, help="Stop before hubs are frozen; without it the same command resumes.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and whether it can be; write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before hubs leave the source.")
@pass_settings
def migrate_store(
    settings: Settings,
    source: str,
    target: str,
    with_owners: bool,
    deployment: Deployment,
    admins: tuple[str, ...],
    hubs_down: bool,
    no_pause: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Copy all metadata from one store to another, and prove that both hold the same.

    Hubs continue while the command copies records and catches up with changes. Then it freezes the store, and each
    running hub through its admin endpoint, until both stores are equal. After that no hub writes to the source again,
    and the command asks before it: restart the hubs with the new URL. If it ends earlier, hubs continue, and the same
    command resumes.
    """
    output = settings.writer()
    given = None if hubs_down else deployment.cluster or (source if source.startswith("zookeeper:") else None)
    options = MigrationOptions(
        deployment=replace(deployment, cluster=given),
        source=source,
        target=target,
        owners=with_owners,
        admins=admins,
        hubs_down=hubs_down,
        stops_before_pause=no_pause,
        yes=yes,
    )
    try:
        if dry_run:
            plan = MigrationPlan.make(options)
            output.record(plan.facts)
            plan.check()
            return
        report = asyncio.run(_Migrating(options).run())
    except OperationError:
        raise
    except HedwigError as exc:
        raise OperationError(
            f"{settings.command} failed: {explain(exc, f'{source} or {target}')}", exit_code_of(exc)
        ) from exc
    output.record(report)
    if report["verified"]:
        click.echo(_what_next(source, target, report["hubs"]), err=True)


def _what_next(source: str, target: str, hubs: Sequence[str]) -> str:
    which = f"{counted(len(hubs), 'hub')} frozen now: restart each" if hubs else "start hubs"
    return (
        f"{which} with the option metadata = {target}; no hub writes to {source} again, unless you thaw it with: "
        f"hedwig-admin metadata thaw --metadata {source}"
    )


@dataclass(slots=True)
class _Migrating:
    """One run of the command."""

    options: MigrationOptions
    hubs: list[str] = field(default_factory=list)

    async def run(self) -> Mapping[str, Any]:
        """Run the migration, or resume it; return the report."""
        began = time.monotonic()
        options = self.options
        command = options.deployment.command
        layout, _ = await options.layouts()
        async with AsyncExitStack() as stack:
            store_options = options.deployment.store_options()
            source = await stack.enter_async_context(await open_metadata(options.source, store_options))
            target = await stack.enter_async_context(await open_metadata(options.target, store_options))
            hubs = options.hubs_of(source)
            await self._ask(hubs, source)
            migration = Migration(
                source, target, options.name_of_source(layout), owners=options.owners, clock=SystemClock()
            )
            try:
                await migration.begin()
            except MigrationError as exc:
                raise OperationError(f"{command}: cannot use {options.target}: {exc}") from exc
            freeze = StoreFreeze(
                source.named_records,
                migration.state.id,
                options.target,
                lease_s=_LEASE_S,
                clock=SystemClock(),
                random=Random(),
            )
            run = MigrationRun(command, migration, source, freeze, None if options.hubs_down else hubs)
            try:
                pause_s = await self._carry_out(migration, freeze, run)
            except (Exception, asyncio.CancelledError):
                click.echo("stopped: to go on from there, give the same command again", err=True)
                raise
            counts = await target.count()
        return {
            "from": options.source,
            "to": options.target,
            "records": {kind: number for kind, number in counts.items() if options.owners or kind != OWNERSHIP.name},
            "copied": migration.state.copied,
            "resumed": migration.is_resumed,
            "caught_up": run.caught_up,
            "compared_in_pause": run.compared,
            "changed_in_pause": run.mended,
            "logs": run.logs,
            "rules": run.rules,
            "users": run.users,
            "verified": pause_s is not None,
            "pause_seconds": None if pause_s is None else round(pause_s, 3),
            "hubs": hubs.frozen,
            "seconds": round(time.monotonic() - began, 3),
        }

    async def _carry_out(self, migration: Migration, freeze: StoreFreeze, run: MigrationRun) -> float | None:
        if migration.is_resumed and await freeze.is_moved():
            # The earlier run ended between its last two writes. Hubs may use the target by now, so nothing is compared
            # again.
            await migration.prepare_target()
            await migration.finish()
            return 0.0
        pauses = not self.options.stops_before_pause
        return await run.run(pauses=pauses, catches_up=bool(self.hubs) or not pauses)

    async def _ask(self, hubs: MigrationHubs, source: MetadataStore) -> None:
        """Check before the copy that the final pause is possible, and that the user wants it."""
        options = self.options
        self.hubs = await options.find_hubs(hubs, source)
        if options.yes or options.stops_before_pause:
            return
        freezes = f"freezes {counted(len(self.hubs), 'hub')} until you restart them ({', '.join(self.hubs)}), and "
        await asyncio.to_thread(
            confirm,
            f"at the end this {freezes if self.hubs else ''}leaves {options.source} for {options.target}: no hub "
            "writes to the old store from then on",
        )
