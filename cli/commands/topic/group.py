"""The commands `hedwig-admin topic …`."""

from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Any, Final

import click

from hedwig.cli.arguments.bulk_options import bulk_options
from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.arguments.selection import Selection, list_options
from hedwig.cli.commands.topic.deletion import StoredTopic, check_there, delete_one, read_topic
from hedwig.cli.commands.topic.move import move_topic
from hedwig.cli.commands.topic.ownership import release_topic, show_owners
from hedwig.cli.commands.topic.stats import show_stats
from hedwig.cli.output.fields import ledger_fields, owner_fields, subscription_fields, version_text
from hedwig.cli.output.formats import Output, Row
from hedwig.cli.output.outcomes import report_outcomes
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.metadata import MetadataStore, Read, RecordKey, Write
from hedwig.metadata.bulk.loading import TopicCreator
from hedwig.model import LedgerRanges, Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.store import with_store, with_store_to_write
from hedwig.operations.loads.bulk_load import BulkOptions, run_load
from hedwig.operations.progress import listing_progress
from hedwig.versions import NEW

__all__ = ["topic"]

_COLUMNS: Final = ("topic", "owner", "ledgers", "version")
_PAGE_ROWS: Final = 500


@click.group(cls=AdminGroup, example="hedwig-admin topic list --prefix admin/")
def topic() -> None:
    """Create, show, list, move and delete topics.

    Names are typed as they are shown: UTF-8 as it is, any other byte as \\xNN, a backslash doubled.
    """


@topic.command("create", example="hedwig-admin topic create -f topics.tsv")
@click.argument("names", nargs=-1, type=TOPIC, metavar="[NAME]...")
@bulk_options()
@click.option("--if-not-exists", is_flag=True, help="Do not fail for a topic that exists.")
@pass_settings
def create_topics(settings: Settings, /, names: Sequence[Topic], if_not_exists: bool, bulk: BulkOptions | None) -> None:
    """Create topics: those that are named, or those of a FILE with a name in its first column.

    With a file, topics that exist are counted and are no error. To resume a load that was ended, give the same command
    again.
    """
    if bool(names) == (bulk is not None):
        raise click.UsageError("give either NAMEs or -f FILE")
    if bulk is not None:
        run_load(settings.deployment, bulk, TopicCreator, settings.writer().record, with_subscriber=False)
        return
    output = settings.writer()
    keys = [RecordKey(name) for name in dict.fromkeys(names)]

    async def create(store: MetadataStore) -> None:
        outcomes = await store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
        report_outcomes(settings.deployment, output, "topics", keys, outcomes, if_not_exists=if_not_exists)

    with_store_to_write(settings.deployment, create)


@topic.command("show", example="hedwig-admin topic show news")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@click.option(
    "--subscriptions",
    "shown",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many subscriptions to show at most.",
)
@pass_settings
def show_topic(settings: Settings, name: Topic, shown: int) -> None:
    """Show a topic: owner, ledgers, subscriptions, versions."""
    output = settings.writer()

    async def show(store: MetadataStore) -> None:
        records = await read_topic(store, name)
        check_there(records)
        first: list[Row] = []
        if shown:
            async for subscriber, data in store.subscriptions.read_subscriptions(name):
                first.append(subscription_fields(subscriber, data))
                if len(first) == shown:
                    break
        output.record(_topic_fields(records) | {"subscriptions": first})

    with_store(settings.deployment, show)


@topic.command("list", example="hedwig-admin topic list --prefix admin/ --limit 100")
@list_options(TOPIC)
@pass_settings
def list_topics(settings: Settings, /, selection: Selection) -> None:
    """List topics, in the order of the store.

    The list has every topic with any record. --columns owner,ledgers,version reads the records too.
    """
    output = settings.writer()

    async def list_them(store: MetadataStore) -> None:
        await _write_listing(store, selection, output)

    with_store(settings.deployment, list_them)


for command in (delete_one, show_owners, release_topic, move_topic, show_stats):
    topic.add_command(command)


async def _write_listing(store: MetadataStore, selection: Selection, output: Output) -> None:
    """Write the topics of `selection` page by page, with one page in memory."""
    listing = f"topics {store.url.text}"
    start = selection.start(listing)
    names = store.topics(selection.prefix, None if start is None else Topic(start))
    left = selection.names_max
    output.begin("topics", _COLUMNS, ("topic",))
    token = None
    with listing_progress("topics") as progress:
        while page := await _take(names, _PAGE_ROWS if left is None else min(left, _PAGE_ROWS)):
            output.page(await _rows(store, page, output.chosen or ()))
            progress.advance(len(page), 0)
            left = None if left is None else left - len(page)
            if left == 0:
                token = selection.token(listing, page[-1]) if await _take(names, 1) else None
                break
    output.end(token)


async def _take(names: AsyncIterator[Topic], most: int) -> list[Topic]:
    taken: list[Topic] = []
    while len(taken) < most and (name := await anext(names, None)) is not None:
        taken.append(name)
    return taken


async def _rows(store: MetadataStore, topics: Sequence[Topic], columns: Sequence[str]) -> list[Row]:
    """Return the fields of `topics`. Reads records only for columns that need them."""
    rows: list[dict[str, Any]] = [dict(name_fields(name)) for name in topics]
    reads = [Read(RecordKey(name)) for name in topics]
    if "owner" in columns:
        for row, owned in zip(rows, await store.ownership.apply(reads), strict=True):
            owned.check()
            row["owner"] = None if owned.record is None else owned.record.value.name
    if {"ledgers", "version"} & set(columns):
        for row, kept in zip(rows, await store.persistence.apply(reads), strict=True):
            kept.check()
            row["ledgers"] = None if kept.record is None else len(kept.record.value.ranges)
            row["version"] = version_text(None if kept.record is None else kept.record.version)
    return list(rows)


def _topic_fields(records: StoredTopic) -> dict[str, Any]:
    persistence = records.persistence
    ranges = () if persistence is None else persistence.value.ranges
    return {
        **name_fields(records.topic),
        "version": version_text(None if persistence is None else persistence.version),
        **owner_fields(records.owner),
        "ledger_count": records.ledgers,
        "ledgers": [ledger_fields(each) for each in islice(ranges, 1000)],
        "subscription_count": records.subscriptions,
    }
