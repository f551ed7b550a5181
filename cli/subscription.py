"""The commands `hedwig-admin subscription …`."""

import heapq
from collections.abc import AsyncIterator, Sequence
from typing import Final

import click

from cli.access import with_store
from cli.bulk import BulkOptions, bulk_options, run_load
from cli.errors import CommandError, ExitCode
from cli.fields import name_fields, subscription_fields
from cli.names import SUBSCRIBER, TOPIC, complete_topic
from cli.outcomes import report_outcomes
from cli.output import Output
from cli.preferences import NewSubscription, new_subscription_options
from cli.program import AdminGroup
from cli.selection import Selection, list_options
from cli.settings import Settings, pass_settings
from hedwig.errors import TopicPersistenceInfoExistsError
from hedwig.model import LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.names import show_name
from hedwig.versions import NEW, Versioned
from metadata import MetadataStore, RecordKey, Write
from metadata.bulk import SubscriptionCreator

__all__ = ["subscription"]

_COLUMNS: Final = (
    "subscriber",
    "consumed",
    "consumed_remote",
    "message_bound",
    "message_window_size",
    "message_filter",
    "options",
    "version",
)
_SHOWN: Final = ("subscriber", "consumed", "version")
_PAGE_ROWS: Final = 500


@click.group(cls=AdminGroup, example="hedwig-admin subscription list news")
def subscription() -> None:
    """Create, show and list subscriptions."""


@subscription.command("create", example="hedwig-admin subscription create news reader --if-not-exists")
@click.argument("topic", required=False, type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", required=False, type=SUBSCRIBER)
@bulk_options()
@new_subscription_options()
@click.option("--if-not-exists", is_flag=True, help="Do not fail for a subscription that exists.")
@pass_settings
def create_subscriptions(
    settings: Settings,
    /,
    topic: Topic | None,
    subscriber: SubscriberId | None,
    if_not_exists: bool,
    bulk: BulkOptions | None,
    new: NewSubscription,
) -> None:
    """Create a subscription, or those of a FILE with a topic and a subscriber in its first two columns.

    A topic that does not exist is created too, as a client's first subscribe does. With a file, subscriptions that
    exist are counted and are no error, the preferences hold for every row, and a load that was ended goes on when the
    same command is given again.
    """
    if bulk is not None:
        if topic is not None:
            raise click.UsageError("give either TOPIC and SUBSCRIBER or -f FILE")
        run_load(
            settings, bulk, lambda store: SubscriptionCreator(store, new.data), with_subscriber=True, given=new.given
        )
        return
    if topic is None or subscriber is None:
        raise click.UsageError("give TOPIC and SUBSCRIBER, or -f FILE")
    key = RecordKey(topic, subscriber)
    output = settings.writer()

    async def create(store: MetadataStore) -> None:
        if await _make_topic(store, key.topic):
            click.echo(f"topic {show_name(key.topic)!r} did not exist, and was created too", err=True)
        outcomes = await store.subscriptions.apply([Write(key, new.data, NEW)])
        report_outcomes(settings, output, "subscriptions", [key], outcomes, if_not_exists=if_not_exists)

    with_store(settings, create)


@subscription.command("show", example="hedwig-admin subscription show news reader -o json")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER)
@pass_settings
def show_subscription(settings: Settings, topic: Topic, subscriber: SubscriberId) -> None:
    """Show a subscription: consume pointer, preferences, version."""
    output = settings.writer()

    async def show(store: MetadataStore) -> None:
        found = await store.subscriptions.read_subscription_data(topic, subscriber)
        if found is None:
            raise CommandError(
                f"there is no {RecordKey(topic, subscriber)}; see who is there with: "
                f"hedwig-admin subscription list '{show_name(topic)}'",
                ExitCode.NOT_FOUND,
            )
        output.record(name_fields(topic) | subscription_fields(subscriber, found))

    with_store(settings, show)


@subscription.command("list", example="hedwig-admin subscription list news --limit 100 -o ndjson")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@list_options(SUBSCRIBER)
@pass_settings
def list_subscriptions(settings: Settings, /, topic: Topic, selection: Selection) -> None:
    """List the subscriptions of a topic, by the bytes of their subscribers; with --all in the order of the store."""
    output = settings.writer()

    async def list_them(store: MetadataStore) -> None:
        await _check_topic(store, topic)
        await _write_listing(store, topic, selection, output)

    with_store(settings, list_them)


async def _check_topic(store: MetadataStore, topic: Topic) -> None:
    """Raise CommandError if there is no such topic: a misspelt one must not look like one without subscribers."""
    async for _ in store.subscriptions.read_subscriptions(topic):
        return
    if await store.persistence.read_topic_persistence_info(topic) is None:
        raise CommandError(
            f"there is no topic {show_name(topic)!r}; see what there is with: hedwig-admin topic list",
            ExitCode.NOT_FOUND,
        )


async def _write_listing(store: MetadataStore, topic: Topic, selection: Selection, output: Output) -> None:
    """Write the subscriptions of `selection`.

    A store names the subscribers of a topic in an order of its own, and only from the first. So a page is chosen from
    all of them, by their bytes, and no more than the page is held; all together are written as they come.
    """
    listing = f"subscriptions {topic.hex()}"
    wanted = _wanted(store, topic, selection.start(listing) or b"", selection.prefix or b"")
    limit = selection.names_max
    output.begin("subscriptions", _COLUMNS, _SHOWN)
    if limit is None:
        async for page in _pages(wanted):
            _write_page(output, page)
        output.end()
        return
    found = await _least(wanted, limit + 1)
    _write_page(output, found[:limit])
    output.end(selection.token(listing, found[limit - 1][0]) if len(found) > limit else None)


async def _wanted(store: MetadataStore, topic: Topic, start: bytes, prefix: bytes) -> "AsyncIterator[_Found]":
    async for subscriber, found in store.subscriptions.read_subscriptions(topic):
        if subscriber > start and subscriber.startswith(prefix):
            yield subscriber, found


_Found = tuple[SubscriberId, Versioned[SubscriptionData]]


async def _least(found: AsyncIterator[_Found], most: int) -> list[_Found]:
    """Return the `most` first by subscriber, holding twice as many at the most."""
    least: list[_Found] = []
    async for item in found:
        least.append(item)
        if len(least) >= 2 * most:
            least = heapq.nsmallest(most, least, key=lambda each: each[0])
    return heapq.nsmallest(most, least, key=lambda each: each[0])


async def _pages(found: AsyncIterator[_Found]) -> AsyncIterator[list[_Found]]:
    page: list[_Found] = []
    async for item in found:
        page.append(item)
        if len(page) == _PAGE_ROWS:
            yield page
            page = []
    yield page


def _write_page(output: Output, page: Sequence[_Found]) -> None:
    output.page([subscription_fields(subscriber, found) for subscriber, found in page])


async def _make_topic(store: MetadataStore, topic: Topic) -> bool:
    """Create `topic` unless it exists; say whether it did not."""
    if await store.persistence.read_topic_persistence_info(topic) is not None:
        return False
    try:
        await store.persistence.write_topic_persistence_info(topic, LedgerRanges(), NEW)
    except TopicPersistenceInfoExistsError:
        return False
    return True
