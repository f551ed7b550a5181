"""The command `hedwig-admin subscription lag`: how far subscriptions are behind."""

from typing import Any, Final

import click

from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.arguments.selection import Selection, list_options
from hedwig.cli.commands.subscription.pages import listing_of, write_subscriptions
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import OperationError
from hedwig.metadata import MetadataStore
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.names import bytes_fields, parse_name, show_name
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError, named
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState
from hedwig.operations.topics.positions import TopicPositions
from hedwig.operations.topics.subscription_access import SubscriptionAccess, check_topic
from hedwig.versions import Versioned

__all__ = ["show_lag"]

_COLUMNS: Final = ("subscriber", "consumed", "last_id", "lag_messages", "attached")
_SHOWN: Final = ("subscriber", "consumed", "lag_messages", "attached")
_PAGE_ROWS: Final = 1000


@click.command("lag", cls=AdminCommand, example="hedwig-admin subscription lag news")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER, required=False)
@list_options(SUBSCRIBER)
@deployment_options(admin="the topic's owner")
@pass_settings
def show_lag(
    settings: Settings,
    /,
    topic: Topic,
    subscriber: SubscriberId | None,
    selection: Selection,
    deployment: Deployment,
) -> None:
    """Show how many messages each subscription of a topic, or one, has not consumed.

    The command asks the owner of the topic, if there is one that can be asked. The store has the consume pointers that
    were stored last, and does not know how many messages are in a ledger that was left open.
    """
    if subscriber is not None and not selection.is_untouched:
        raise click.UsageError("give SUBSCRIBER or the options of a listing, not both")
    output = settings.writer()
    endpoint = _find_owner(settings, topic, deployment)
    if subscriber is not None:
        access = SubscriptionAccess(deployment, topic, subscriber)
        lag = access.ask(endpoint, "/lag") if endpoint is not None else None
        row = _row_of_hub(lag["subscriptions"][0], lag["last_id"]) if lag is not None else _stored_row(access)
        output.begin("subscriptions", _COLUMNS, _SHOWN)
        output.page([row])
        output.end()
        return
    output.begin("subscriptions", _COLUMNS, _SHOWN)
    if endpoint is None or not _write_from_hub(endpoint, settings.url_to_show, topic, selection, output):
        _write_from_store(settings, topic, selection, output)


def _find_owner(settings: Settings, topic: Topic, deployment: Deployment) -> AdminClient | None:
    owner = OwnerFinder(deployment).find_existing(topic)
    if owner.state is OwnerState.ALIVE:
        try:
            return owner.asked(settings.command)
        except OperationError as exc:
            click.echo(f"{exc}; what follows is from the store", err=True)
    elif owner.state is OwnerState.UNKNOWN:
        click.echo(f"it is not known whether its owner {owner.hub} is alive: {owner.why}", err=True)
    return None


def _write_from_hub(endpoint: AdminClient, url: str, topic: Topic, selection: Selection, output: Output) -> bool:
    """Write the owner's answers page by page, and end the listing. Return False, before any row, if it is no owner.

    `url` is the URL of the store, since the next page may come from the store.
    """
    listing = listing_of(topic, url)
    prefix = selection.prefix or b""
    # The hub begins after a given name. The prefix without its last byte sorts before all names with the prefix.
    start = max(selection.start(listing) or b"", prefix[:-1])
    left = selection.names_max
    is_first = True
    while True:
        try:
            page = endpoint.get(named("/lag", topic=topic, limit=_PAGE_ROWS, start_after=show_name(start)))
        except RefusedError as exc:
            if is_first and exc.answer.get("reason") == "not owned":
                return False
            raise
        is_first = False
        names = [parse_name(row["subscriber"]) for row in page["subscriptions"]]
        wanted = [
            (name, row) for name, row in zip(names, page["subscriptions"], strict=True) if name.startswith(prefix)
        ]
        is_last = page["next"] is None or (names[-1] > prefix and not names[-1].startswith(prefix))
        output.page([_row_of_hub(row, page["last_id"]) for _, row in wanted[:left]])
        if left is not None:
            if len(wanted) > left or (len(wanted) == left and not is_last):
                output.end(selection.token(listing, wanted[left - 1][0]))
                return True
            left -= len(wanted)
        if is_last:
            output.end()
            return True
        start = names[-1]


def _write_from_store(settings: Settings, topic: Topic, selection: Selection, output: Output) -> None:
    async def write(store: MetadataStore) -> None:
        await check_topic(store, topic)
        kept = await store.persistence.read(topic)
        last_id = _last_id(topic, TopicPositions(() if kept is None else kept.value.ranges))

        def row(subscriber: SubscriberId, record: Versioned[SubscriptionData]) -> dict[str, Any]:
            return _fields(subscriber, record.value.consumed, last_id)

        await write_subscriptions(store, topic, selection, output, row)

    with_store(settings.deployment, write)


def _stored_row(access: SubscriptionAccess) -> dict[str, Any]:
    stored = access.read()
    if stored is None:
        raise access.missing()
    last_id = _last_id(access.topic, TopicPositions(stored.ranges.ranges))
    return _fields(access.subscriber, stored.record.value.consumed, last_id)


def _last_id(topic: Topic, positions: TopicPositions) -> int | None:
    """Return the id of the last message. If the store does not know it, report that and return None."""
    if positions.last_id is None and positions.open is not None:
        click.echo(
            f"it is not known how many messages topic '{show_name(topic)}' has. Ledger {positions.open.ledger_id}, "
            f"from message {positions.open.start} on, was left open, and no hub that owns the topic was asked",
            err=True,
        )
    return positions.last_id


def _fields(subscriber: SubscriberId, consumed: int, last_id: int | None) -> dict[str, Any]:
    return bytes_fields("subscriber", subscriber) | {
        "consumed": consumed,
        "last_id": last_id,
        "lag_messages": None if last_id is None else max(0, last_id - consumed),
        "attached": None,
    }


def _row_of_hub(row: dict[str, Any], last_id: int) -> dict[str, Any]:
    return _fields(SubscriberId(parse_name(row["subscriber"])), row["consumed"], last_id) | {
        "lag_messages": row["lag_messages"],
        "attached": row["attached"],
    }
