"""The commands `hedwig-admin metadata …`: the store as a whole."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from hedwig.cli.arguments.confirmation import confirm_by_typing
from hedwig.cli.arguments.names import NUMBER
from hedwig.cli.commands.metadata.check import check_store
from hedwig.cli.commands.metadata.exporting import export_store
from hedwig.cli.commands.metadata.frozen import say_if_frozen
from hedwig.cli.commands.metadata.hbase_token import make_hbase_token
from hedwig.cli.commands.metadata.importing import import_store
from hedwig.cli.commands.metadata.index import index_store
from hedwig.cli.commands.metadata.migrate import migrate_store
from hedwig.cli.commands.metadata.repair import repair_store
from hedwig.cli.commands.metadata.thaw import thaw_store
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import LayoutMissingError, OperationError
from hedwig.human_units import counted
from hedwig.metadata import Estimate, MetadataStore, MetadataUrl, StoreOptions, format_metadata, regions_for
from hedwig.operations.deployment.closed_nodes import access_to_close, close_nodes
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.living_hubs import LivingHubs
from hedwig.operations.deployment.store import with_store
from hedwig.operations.progress import load_progress, working

if TYPE_CHECKING:
    from hedwig.store_access import ZooKeeperAccess

__all__ = ["metadata"]

_TOPICS_MAX: Final = 5_000_000_000
_WITHOUT_REGIONS: Final = frozenset({"sqlite", "zookeeper"})


@click.group(cls=AdminGroup, example="hedwig-admin metadata stats")
def metadata() -> None:
    """Lay out, describe and count a metadata store; check and repair it; export, import and migrate it."""


@metadata.command("format", example="hedwig-admin metadata format --topics 10M")
@click.option(
    "--topics",
    type=NUMBER,
    help="How many topics you expect, such as 500k or 10M; the number of HBase regions follows from it.",
)
@click.option(
    "--regions",
    type=click.IntRange(1, 10_000),
    help=f"HBase regions of each table, instead of --topics.  [default: {StoreOptions().regions}]",
)
@click.option(
    "--no-subscriber-index",
    is_flag=True,
    help="Give a new store in HBase no index of subscriptions by subscriber; metadata index begins one later.",
)
@click.option("--wipe", is_flag=True, help="Delete every record that the store holds.")
@click.option(
    "--secure",
    is_flag=True,
    help="Close the deployment's nodes in ZooKeeper, those of hubs too, to all but the logins of --stores-file.",
)
@click.option("--force", is_flag=True, help="With --wipe: also while hubs are alive, which then lose messages.")
@click.option("--yes", is_flag=True, help="Do not ask before --wipe.")
@click.option("--dry-run", is_flag=True, help="With --wipe: say what would be deleted, and change nothing.")
@deployment_options()
@pass_settings
def format_store(
    settings: Settings,
    /,
    topics: int | None,
    regions: int | None,
    no_subscriber_index: bool,
    wipe: bool,
    secure: bool,
    force: bool,
    yes: bool,
    dry_run: bool,
    deployment: Deployment,
) -> None:
    """Create the missing parts of a store; existing records stay, unless --wipe is given.

    --wipe refuses while a hub that uses the store is alive. Such a hub continues from memory, and what it acknowledges
    then is lost.

    --secure is safe while hubs run that have one of these logins. Others lose their nodes.
    """
    for name, is_given in (("--dry-run", dry_run), ("--force", force)):
        if is_given and not wipe:
            raise click.UsageError(f"{name} goes with --wipe: without it nothing is deleted")
    if secure and dry_run:
        raise click.UsageError("--dry-run goes with --wipe, and --secure changes nodes")
    access = access_to_close(deployment) if secure else None
    output, url = settings.writer(), settings.deployment.url
    if topics is not None:
        regions = _regions_for(topics, regions)
    if regions is not None and MetadataUrl.parse(url).scheme in _WITHOUT_REGIONS:
        # This is no error, so that one command can lay out stores of all kinds, one after the other.
        named = "--regions" if topics is None else "--topics"
        click.echo(f"{named} changes nothing here: it is for HBase, and {url} has none", err=True)
    records, hubs = _to_wipe(deployment) if wipe else ({}, LivingHubs())
    if dry_run:
        output.record({"metadata": url, "would_delete": records, "hubs": list(hubs.names)})
    if hubs.why_not and not force:
        raise OperationError(
            f"{settings.command}: {url} was not wiped: {hubs.why_not}; metadata format --wipe --force wipes it anyway"
        )
    if dry_run:
        return
    if (sum(records.values()) or hubs.names) and not yes:
        alive = f" while {counted(len(hubs.names), 'hub')} alive: {', '.join(hubs.names)}" if hubs.names else ""
        confirm_by_typing(f"This deletes {_spelled(records)} in {url} for good{alive}.", url)
    options = settings.deployment.store_options(
        indexes_subscribers=not no_subscriber_index, **({} if regions is None else {"regions": regions})
    )
    layout = asyncio.run(format_metadata(url, options, wipe=wipe))
    row: dict[str, object] = {"metadata": url, "backend": layout.kind, "format": f"{layout.major}.{layout.minor}"}
    row |= {"store_id": layout.store_id or None}
    if wipe:
        row |= {"deleted": records}
    if access is not None:
        row |= {"closed": asyncio.run(_close(deployment, access))}
    output.record(row)


def _regions_for(topics: int, regions: int | None) -> int:
    if regions is not None:
        raise click.UsageError("--topics and --regions exclude each other: give the number of regions or of topics")
    if not 1 <= topics <= _TOPICS_MAX:
        raise click.BadParameter(f"{topics:,} is not in the range from 1 to {_TOPICS_MAX:,}", param_hint="--topics")
    return regions_for(topics)


@metadata.command(example="hedwig-admin metadata describe -o json")
@pass_settings
def describe(settings: Settings) -> None:
    """Show what a store is: backend, format, servers, sizes."""
    output = settings.writer()

    async def ask(store: MetadataStore) -> None:
        facts = await store.describe()
        output.record(
            {"metadata": settings.deployment.url}
            | {name.lower().replace(" ", "_"): fact for name, fact in facts.items()}
        )
        await say_if_frozen(settings.deployment, store)

    with_store(settings.deployment, ask)


@metadata.command(example="hedwig-admin metadata stats -o ndjson")
@click.option("--exact", is_flag=True, help="Count all records, also where that takes minutes.")
@pass_settings
def stats(settings: Settings, exact: bool) -> None:
    """Count the records of a store, by kind.

    In HBase more than a hundred thousand records of a kind are counted by samples, and marked as `about`.
    """
    output = settings.writer()

    async def count(store: MetadataStore) -> None:
        with load_progress("counting", None, noun="records") as progress:

            def advance(number: int) -> None:
                progress.advance(number, 0)

            if exact:
                counts = {
                    kind: Estimate(number, is_exact=True) for kind, number in (await store.count(advance)).items()
                }
            else:
                counts = dict(await store.estimate(advance))
        rows = [{"kind": kind, "count": each.number, "about": not each.is_exact} for kind, each in counts.items()]
        output.listing("records", rows, ("kind", "count", "about"))

    with_store(settings.deployment, count)


@metadata.command(example="hedwig-admin metadata sweep --older-than 24")
@click.option(
    "--older-than",
    "hours",
    type=click.FloatRange(min=1),
    default=1.0,
    show_default=True,
    metavar="HOURS",
    help="Keep what was deleted in the last HOURS.",
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
        output.record({"metadata": settings.deployment.url, "would_remove" if dry_run else "removed": number})

    with_store(settings.deployment, remove)


for command in (
    check_store,
    repair_store,
    export_store,
    import_store,
    index_store,
    migrate_store,
    thaw_store,
    make_hbase_token,
):
    metadata.add_command(command)


async def _close(deployment: Deployment, access: "ZooKeeperAccess") -> int:
    with load_progress("closing nodes to those without a login", None, noun="nodes") as progress:
        return await close_nodes(deployment, access, lambda number: progress.advance(number, 0))


def _to_wipe(deployment: Deployment) -> tuple[Mapping[str, int], LivingHubs]:
    """Return the number of records of each kind, and the living hubs that use them."""

    async def look(store: MetadataStore) -> tuple[Mapping[str, int], LivingHubs]:
        with load_progress("counting what --wipe would delete", None, noun="records") as progress:
            records = await store.count(lambda number: progress.advance(number, 0))
        return records, await LivingHubs.find(deployment, store, records)

    try:
        return with_store(deployment, look)
    except LayoutMissingError:
        return {}, LivingHubs()


def _spelled(records: Mapping[str, int]) -> str:
    nouns = {"ownership": "owner record", "persistence": "topic", "subscriptions": "subscription"}
    return ", ".join(counted(number, nouns.get(kind, kind)) for kind, number in records.items())
