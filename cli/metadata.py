"""The commands `hedwig-admin metadata …`: the store as a whole."""

import asyncio
from collections.abc import Mapping

import click

from cli.access import with_store
from cli.confirmation import confirm_by_typing
from cli.errors import counted
from cli.metadata_check import check_store
from cli.metadata_export import export_store, import_store
from cli.metadata_migrate import migrate_store
from cli.metadata_repair import repair_store
from cli.metadata_thaw import thaw_store
from cli.metadata_upgrade import upgrade_store
from cli.program import AdminGroup
from cli.progress import load_progress, working
from cli.settings import Settings, pass_settings
from hedwig.errors import LayoutMissingError
from metadata import MetadataStore, format_metadata

__all__ = ["metadata"]


@click.group(cls=AdminGroup, example="hedwig-admin metadata stats")
def metadata() -> None:
    """Lay out, describe and count a metadata store; check and repair it; export, import, migrate and upgrade it."""


@metadata.command("format", example="hedwig-admin metadata format --regions 16")
@click.option(
    "--regions", type=click.IntRange(1, 10_000), default=16, show_default=True, help="HBase regions of each table."
)
@click.option("--wipe", is_flag=True, help="Delete every record that the store holds.")
@click.option("--yes", is_flag=True, help="Do not ask before --wipe.")
@click.option("--dry-run", is_flag=True, help="With --wipe: say what would be deleted, and change nothing.")
@pass_settings
def format_store(settings: Settings, regions: int, wipe: bool, yes: bool, dry_run: bool) -> None:
    """Make what is missing of a store; records that are there stay, unless --wipe is given."""
    if dry_run and not wipe:
        raise click.UsageError("--dry-run goes with --wipe: without it nothing is deleted")
    output, url = settings.writer(), settings.url
    records = _records_to_wipe(settings) if wipe else {}
    if dry_run:
        output.record({"metadata": url, "would_delete": records})
        return
    if sum(records.values()) and not yes:
        confirm_by_typing(f"This deletes {_spelled(records)} in {url} for good.", url)
    layout = asyncio.run(format_metadata(url, settings.store_options(regions=regions), wipe=wipe))
    row = {"metadata": url, "backend": layout.kind, "format": f"{layout.major}.{layout.minor}"}
    output.record(row | {"store_id": layout.store_id or None} | ({"deleted": records} if wipe else {}))


@metadata.command(example="hedwig-admin metadata describe -o json")
@pass_settings
def describe(settings: Settings) -> None:
    """Show what a store is: backend, format, servers, sizes."""
    output = settings.writer()

    async def ask(store: MetadataStore) -> None:
        facts = await store.describe()
        output.record(
            {"metadata": settings.url} | {name.lower().replace(" ", "_"): fact for name, fact in facts.items()}
        )

    with_store(settings, ask)


@metadata.command(example="hedwig-admin metadata stats -o ndjson")
@pass_settings
def stats(settings: Settings) -> None:
    """Count the records of a store, by kind."""
    output = settings.writer()

    async def count(store: MetadataStore) -> None:
        with load_progress("counting", None, noun="records") as progress:
            counts = await store.count(lambda number: progress.advance(number, 0))
        output.listing(
            "records", [{"kind": kind, "count": number} for kind, number in counts.items()], ("kind", "count")
        )

    with_store(settings, count)


@metadata.command(example="hedwig-admin metadata sweep --older-than 24")
@click.option(
    "--older-than",
    "hours",
    type=click.FloatRange(min=1),
    default=1.0,
    show_default=True,
    metavar="HOURS",
    help="Keep what was deleted later than that.",
)
@click.option("--dry-run", is_flag=True, help="Count what would be removed, and change nothing.")
@pass_settings
def sweep(settings: Settings, hours: float, dry_run: bool) -> None:
    """Remove what deleted records leave behind in HBase; safe while hubs are running.

    SQLite keeps nothing of a deleted record, and what ZooKeeper keeps must stay.
    """
    output = settings.writer()

    async def remove(store: MetadataStore) -> None:
        async with working("looking at what deleted records left" if dry_run else "removing what deleted records left"):
            number = await store.sweep(hours * 3600, dry_run=dry_run)
        output.record({"metadata": settings.url, "would_remove" if dry_run else "removed": number})

    with_store(settings, remove)


for command in (check_store, repair_store, export_store, import_store, migrate_store, thaw_store, upgrade_store):
    metadata.add_command(command)


def _records_to_wipe(settings: Settings) -> Mapping[str, int]:
    async def count(store: MetadataStore) -> Mapping[str, int]:
        with load_progress("counting what --wipe would delete", None, noun="records") as progress:
            return await store.count(lambda number: progress.advance(number, 0))

    try:
        return with_store(settings, count)
    except LayoutMissingError:
        return {}


def _spelled(records: Mapping[str, int]) -> str:
    nouns = {"ownership": "owner record", "persistence": "topic", "subscriptions": "subscription"}
    return ", ".join(counted(number, nouns.get(kind, kind)) for kind, number in records.items())
