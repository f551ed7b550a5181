"""The command `hedwig-admin metadata migrate`: all metadata from one store to another, whatever their backends."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import click

from cli.cluster_access import ClusterAccess, cluster_options
from cli.confirmation import confirm
from cli.errors import CommandError, ExitCode, counted, exit_code_of, explain
from cli.migration_hubs import MigrationHubs
from cli.program import AdminCommand
from cli.progress import load_progress, working
from cli.settings import Settings, pass_settings
from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError, HedwigError
from metadata import MetadataStore, MetadataUrl, open_metadata, read_layout
from metadata.comparison import StoreDigest
from metadata.kinds import OWNERSHIP
from metadata.migration import Migration, MigrationError

__all__ = ["migrate_store"]

_CATCH_UP_ROUNDS: Final = 3
_FINAL_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What was asked for."""

    source: str
    target: str
    owners: bool
    cluster: str | None
    admins: tuple[str, ...]
    hubs_down: bool
    stops_before_pause: bool
    yes: bool


@click.command(
    "migrate",
    cls=AdminCommand,
    example="hedwig-admin metadata migrate --from sqlite:///./hedwig.db --to sqlite:///./moved.db",
)
@click.option("--from", "source", required=True, metavar="URL", help="The store to read.")
@click.option("--to", "target", required=True, metavar="URL", help="The store to fill: formatted, and empty.")
@click.option("--with-owners", is_flag=True, help="Copy owner records too: only for hubs that keep their epochs.")
@cluster_options()
@click.option(
    "--hub-admin",
    "admins",
    multiple=True,
    metavar="HOST:PORT",
    help="Admin endpoint of a running hub that no cluster announces; may be given again.",
)
@click.option("--hubs-down", is_flag=True, help="No hub uses the source: take my word for it.")
@click.option(
    "--no-pause", is_flag=True, help="Stop before hubs are set read-only; given without it later, it goes on."
)
@click.option("--yes", is_flag=True, help="Do not ask before hubs are set read-only.")
@pass_settings
def migrate_store(
    settings: Settings,
    source: str,
    target: str,
    with_owners: bool,
    cluster: ClusterAccess,
    admins: tuple[str, ...],
    hubs_down: bool,
    no_pause: bool,
    yes: bool,
) -> None:
    """Copy all metadata from one store to another, and prove that both hold the same.

    Hubs go on while records are copied and while what changed meanwhile is caught up with. Then they are set read-only
    through their admin endpoints, or must be down, until both sides were found equal. After that they stay read-only:
    restart them with the new URL. However it is ended, the same command goes on where it was.
    """
    output = settings.writer()
    given = None if hubs_down else cluster.given or (source if source.startswith("zookeeper:") else None)
    wish = _Wish(
        source=source,
        target=target,
        owners=with_owners,
        cluster=given,
        admins=admins,
        hubs_down=hubs_down,
        stops_before_pause=no_pause,
        yes=yes,
    )
    try:
        report = asyncio.run(_Migrating(settings, wish).run())
    except HedwigError as exc:
        raise CommandError(
            f"{settings.command} failed: {explain(exc, f'{source} or {target}')}", exit_code_of(exc)
        ) from exc
    output.record(report)
    if report["pause_seconds"] is not None and report["hubs"]:
        click.echo(
            f"{counted(len(report['hubs']), 'hub')} read-only now: restart each with the option metadata = {target}",
            err=True,
        )


@dataclass(slots=True)
class _Migrating:
    """One run of the command."""

    settings: Settings
    wish: _Wish
    caught_up: int = 0
    mended: int = 0
    hubs: list[str] = field(default_factory=list)

    async def run(self) -> Mapping[str, Any]:
        """Carry the migration out, or go on with it; return the report."""
        began = time.monotonic()
        wish = self.wish
        name = await self._name_of_source()
        async with AsyncExitStack() as stack:
            options = self.settings.store_options()
            source = await stack.enter_async_context(await open_metadata(wish.source, options))
            target = await stack.enter_async_context(await open_metadata(wish.target, options))
            hubs = MigrationHubs(
                self.settings.command, source, wish.cluster, wish.admins, self.settings.operation_timeout_s()
            )
            await self._check_hubs(hubs, source)
            migration = Migration(source, target, name, owners=wish.owners, clock=SystemClock())
            try:
                await migration.begin()
            except MigrationError as exc:
                raise CommandError(f"{self.settings.command}: cannot use {wish.target}: {exc}") from exc
            try:
                total = await self._copy(migration, source)
                if self.hubs or wish.stops_before_pause:
                    total = await self._catch_up(migration, total)
                pause_s = None if wish.stops_before_pause else await self._pause(migration, hubs, total)
            except (Exception, asyncio.CancelledError):
                click.echo("stopped: to go on from there, give the same command again", err=True)
                raise
            counts = await target.count()
        return {
            "from": wish.source,
            "to": wish.target,
            "records": {kind: number for kind, number in counts.items() if wish.owners or kind != OWNERSHIP.name},
            "copied": migration.state.copied,
            "resumed": migration.is_resumed,
            "caught_up": self.caught_up,
            "changed_in_pause": self.mended,
            "verified": pause_s is not None,
            "pause_seconds": None if pause_s is None else round(pause_s, 3),
            "hubs": self.hubs,
            "seconds": round(time.monotonic() - began, 3),
        }

    async def _name_of_source(self) -> str:
        """Return what the source is called from wherever it is opened. Raises if it is the target, too."""
        names = []
        for url in (self.wish.source, self.wish.target):
            layout = await read_layout(url, self.settings.store_options())
            if layout is None and url == self.wish.source:
                # Opening it would make an empty SQLite file of a name that was mistyped.
                raise CommandError(f"{self.settings.command}: there is no metadata at {url}; see that --from is right")
            parsed = MetadataUrl.parse(url)
            names.append(f"{parsed.scheme}:{(layout.store_id if layout else '') or parsed.path}")
        source, target = names
        if source == target and (self.wish.source == self.wish.target or not source.startswith("zookeeper:")):
            raise ConfigurationError(f"{self.wish.source} and {self.wish.target} are the same store")
        return source

    async def _check_hubs(self, hubs: MigrationHubs, source: MetadataStore) -> None:
        """Make sure that the pause at the end will be possible, before anything is copied."""
        if self.wish.hubs_down or self.wish.stops_before_pause:
            return
        is_told = self.wish.cluster or self.wish.admins or source.url.scheme == "sqlite"
        if not is_told and await source.standalone_hub() is None:
            raise CommandError(
                f"{self.settings.command}: which hubs use {self.wish.source}? Give --cluster URL, where they are "
                "registered, or --hub-admin HOST:PORT for each, or --hubs-down if there is none",
                ExitCode.USAGE,
            )
        self.hubs = await hubs.find()
        if self.hubs and not self.wish.yes:
            await asyncio.to_thread(
                confirm, f"at the end this sets {counted(len(self.hubs), 'hub')} read-only: {', '.join(self.hubs)}"
            )

    async def _copy(self, migration: Migration, source: MetadataStore) -> int:
        async with working("counting the records of the source"):
            counts = await source.count()
        total = sum(number for kind, number in counts.items() if self.wish.owners or kind != OWNERSHIP.name)
        with load_progress("copying", max(total, 1), noun="records") as progress:
            if migration.is_resumed:
                progress.say(f"going on with a migration that copied {migration.state.copied:,} records so far")
            progress.begin(migration.state.copied)
            await migration.copy(lambda rows: progress.advance(rows, migration.state.copied))
        return total

    async def _catch_up(self, migration: Migration, total: int) -> int:
        for number in range(_CATCH_UP_ROUNDS):
            source, target = await self._compare(migration, total, f"comparing, {number + 1}")
            total = source.counts.total()
            differing = source.differing(target)
            if not differing:
                break
            self.caught_up += await self._mend(migration, differing)
        return total

    async def _pause(self, migration: Migration, hubs: MigrationHubs, total: int) -> float:
        """Stop changes of the source, and bring both sides to be equal; return how many seconds that took."""
        began = time.monotonic()
        try:
            self.hubs = [] if self.wish.hubs_down else await hubs.set_read_only()
            for _ in range(_FINAL_ROUNDS):
                source, target = await self._compare(migration, total, "verifying")
                differing = source.differing(target)
                if not differing:
                    await migration.finish()
                    return time.monotonic() - began
                self.mended += await self._mend(migration, differing)
            raise CommandError(
                f"{self.settings.command}: something still changes {self.wish.source} while hubs are read-only or "
                f"down: after {_FINAL_ROUNDS} rounds both sides differ in {counted(len(differing), 'place')}; stop the "
                "hubs, or what else writes there, and give the command again"
            )
        except BaseException:
            try:
                await hubs.set_back()
            except CommandError as exc:
                click.echo(f"a hub may have stayed read-only: {exc}", err=True)
            raise

    async def _compare(self, migration: Migration, total: int, title: str) -> tuple[StoreDigest, StoreDigest]:
        with load_progress(title, max(2 * total, 1), noun="records") as progress:
            return await migration.compare(lambda rows: progress.advance(rows, min(progress.rows + rows, 2 * total)))

    async def _mend(self, migration: Migration, differing: frozenset[int]) -> int:
        async with working("copying what changed"):
            return await migration.mend(differing)
