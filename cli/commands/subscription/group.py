"""The commands `hedwig-admin subscription …`."""

from typing import Final

import click

from hedwig.cli.arguments.bulk_options import bulk_options
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.arguments.selection import Selection, list_options
from hedwig.cli.commands.subscription.by_subscriber import (
    COLUMNS_BY_SUBSCRIBER,
    SHOWN_BY_SUBSCRIBER,
    SUBSCRIPTION_COLUMNS,
    write_by_subscriber,
)
from hedwig.cli.commands.subscription.deletion import delete_subscription
from hedwig.cli.commands.subscription.lag import show_lag
from hedwig.cli.commands.subscription.pages import write_subscriptions
from hedwig.cli.commands.subscription.pointer import reset_pointer, seek_pointer
from hedwig.cli.commands.subscription.preferences import NewSubscription, new_subscription_options
from hedwig.cli.output.fields import subscription_fields
from hedwig.cli.output.outcomes import report_outcomes
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import TopicPersistenceInfoExistsError
from hedwig.metadata import MetadataStore, RecordKey, Write
from hedwig.metadata.bulk.loading import SubscriptionCreator
from hedwig.model import LedgerRanges, SubscriberId, Topic
from hedwig.names import name_fields, show_name
from hedwig.operations.deployment.store import with_store, with_store_to_write
from hedwig.operations.errors import missing_subscription
from hedwig.operations.loads.bulk_load import BulkOptions, run_load
from hedwig.operations.topics.subscription_access import check_topic
from hedwig.versions import NEW

__all__ = ["subscription"]

_SHOWN: Final = ("subscriber", "consumed", "version")


@click.group(cls=AdminGroup, example="hedwig-admin subscription list news")
def subscription() -> None:
    """Create, show, list and delete subscriptions, and move their consume pointers."""


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

    A topic that does not exist is created too, as by a client's first subscribe. With a file, subscriptions that exist
    are counted and are no error, and the preferences hold for every row. To resume a load that was ended, give the same
    command again.
    """
    if bulk is not None:
        if topic is not None:
            raise click.UsageError("give either TOPIC and SUBSCRIBER or -f FILE")
        run_load(
            settings.deployment,
            bulk,
            lambda store: SubscriptionCreator(store, new.data),
            settings.writer().record,
            with_subscriber=True,
            given=new.given,
        )
        return
    if topic is None or subscriber is None:
        raise click.UsageError("give TOPIC and SUBSCRIBER, or -f FILE")
    key = RecordKey(topic, subscriber)
    output = settings.writer()

    async def create(store: MetadataStore) -> None:
        if await _make_topic(store, key.topic):
            click.echo(f"topic '{show_name(key.topic)}' did not exist, and was created too", err=True)
        outcomes = await store.subscriptions.apply([Write(key, new.data, NEW)])
        report_outcomes(settings.deployment, output, "subscriptions", [key], outcomes, if_not_exists=if_not_exists)

    with_store_to_write(settings.deployment, create)


@subscription.command("show", example="hedwig-admin subscription show news reader -o json")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER)
@pass_settings
def show_subscription(settings: Settings, topic: Topic, subscriber: SubscriberId) -> None:
    """Show a subscription: consume pointer, preferences, version."""
    output = settings.writer()

    async def show(store: MetadataStore) -> None:
        record = await store.subscriptions.read(topic, subscriber)
        if record is None:
            await check_topic(store, topic)
            raise missing_subscription(topic, subscriber)
        output.record(name_fields(topic) | subscription_fields(subscriber, record))

    with_store(settings.deployment, show)


@subscription.command("list", example="hedwig-admin subscription list news --limit 100 -o ndjson")
@click.argument("topic", required=False, type=TOPIC, shell_complete=complete_topic)
@click.option("--subscriber", type=SUBSCRIBER, help="Instead of those of TOPIC, list those of this subscriber.")
@list_options(SUBSCRIBER)
@pass_settings
def list_subscriptions(
    settings: Settings, /, topic: Topic | None, subscriber: SubscriberId | None, selection: Selection
) -> None:
    """List the subscriptions of a topic, by the bytes of their subscribers; with --all in the order of the store.

    With --subscriber, list those of a subscriber, in the order of the store; NAME and PREFIX are of topics then.
    Without an index of subscribers, all subscriptions are read for that; see metadata index.
    """
    if (topic is None) == (subscriber is None):
        raise click.UsageError("give either TOPIC or --subscriber SUBSCRIBER")
    output = settings.writer()

    async def list_them(store: MetadataStore) -> None:
        if topic is None:
            assert subscriber is not None, "one of the two was given"
            output.begin("subscriptions", COLUMNS_BY_SUBSCRIBER, SHOWN_BY_SUBSCRIBER)
            await write_by_subscriber(store, subscriber, selection, output)
            return
        await check_topic(store, topic)
        output.begin("subscriptions", SUBSCRIPTION_COLUMNS, _SHOWN)
        await write_subscriptions(store, topic, selection, output, subscription_fields)

    with_store(settings.deployment, list_them)


for command in (delete_subscription, reset_pointer, seek_pointer, show_lag):
    subscription.add_command(command)


async def _make_topic(store: MetadataStore, topic: Topic) -> bool:
    """Create `topic` unless it exists; say whether it was created."""
    if await store.persistence.read(topic) is not None:
        return False
    try:
        await store.persistence.write(topic, LedgerRanges(), NEW)
    except TopicPersistenceInfoExistsError:
        return False
    return True
