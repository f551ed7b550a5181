"""The command `hedwig-admin topic stats`: the messages and subscriptions of a topic, and their rates."""

import time
from http import HTTPStatus
from typing import Any

import click

from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.output.fields import version_text
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import OperationError
from hedwig.metadata import MetadataStore
from hedwig.model import LedgerRanges, Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.admin_endpoint import RefusedError, named, topic_path
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState, TopicOwner
from hedwig.operations.topics.positions import TopicPositions
from hedwig.versions import Versioned

__all__ = ["show_stats"]


@click.command("stats", cls=AdminCommand, example="hedwig-admin topic stats news")
@click.argument("name", type=TOPIC, shell_complete=complete_topic)
@click.option(
    "--over",
    "over_s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Measure the rate of publishes for SECONDS; 0: do not measure it.",
)
@deployment_options(admin="the topic's owner")
@pass_settings
def show_stats(settings: Settings, /, name: Topic, over_s: float, deployment: Deployment) -> None:
    """Show how many messages and subscriptions a topic has, how far behind they are, and how fast it grows.

    The command asks the owner, if there is one that can be asked. Of a topic without owner, the store knows all but the
    messages in a ledger that was left open.
    """
    output = settings.writer()
    owner = OwnerFinder(deployment).find_existing(name)
    levels = _ask_owner(settings, owner, over_s)
    kept, lowest, count = _read_store(settings, name, with_subscriptions=levels is None)
    positions = TopicPositions(kept.value.ranges if kept is not None else ())
    if levels is None:
        last_id = positions.last_id
        levels = {
            "durable": None,
            "first_id": positions.first_id,
            "last_id": last_id,
            "subscriptions": count,
            "attached": None,
            "lag_messages_max": None if last_id is None else max(0, last_id - lowest) if count else 0,
            "publishes_per_s": None,
            "rate_over_s": None,
            "owned_for_s": None,
            "unused_for_s": None,
        }
    output.record(
        name_fields(name)
        | {"owner": owner.hub or None, "owner_state": str(owner.state)}
        | levels
        | {
            "stored_messages": positions.messages(levels["last_id"]),
            "ledgers": len(positions.held),
            "version": version_text(None if kept is None else kept.version),
        }
    )


def _ask_owner(settings: Settings, owner: TopicOwner, over_s: float) -> dict[str, Any] | None:
    """Return the owner's answer about the topic; None if there is none. Reports an owner that cannot be asked."""
    if owner.state is OwnerState.UNKNOWN:
        click.echo(f"it is not known whether its owner {owner.hub} is alive: {owner.why}", err=True)
    if owner.state is not OwnerState.ALIVE:
        return None
    try:
        endpoint = owner.asked(settings.command)
        first = endpoint.get(f"{topic_path(owner.topic)}?limit=1")
        began_at = time.monotonic()
        lag = endpoint.get(named("/lag", topic=owner.topic, limit=1))
        rate, seconds, last = None, None, first
        if over_s:
            time.sleep(max(0.0, began_at + over_s - time.monotonic()))
            last = endpoint.get(f"{topic_path(owner.topic)}?limit=1")
            seconds = time.monotonic() - began_at
            rate = (last["last_id"] - first["last_id"]) / seconds
    except RefusedError as exc:
        if exc.http_status != HTTPStatus.NOT_FOUND:
            raise
        return None  # The topic was released meanwhile.
    except OperationError as exc:
        click.echo(f"{exc}; what follows is from the store", err=True)
        return None
    return {
        "durable": last["durable"],
        "first_id": last["first_id"],
        "last_id": last["last_id"],
        "subscriptions": lag["count"],
        "attached": last["attached"],
        "lag_messages_max": lag["lag_messages_max"],
        "publishes_per_s": None if rate is None else round(rate, 3),
        "rate_over_s": None if seconds is None else round(seconds, 3),
        "owned_for_s": last["owned_for_s"],
        "unused_for_s": last["unused_for_s"],
    }


def _read_store(
    settings: Settings, topic: Topic, *, with_subscriptions: bool
) -> tuple[Versioned[LedgerRanges] | None, int, int]:
    """Return the ranges of a topic and, if wanted, its lowest consume pointer and its number of subscriptions."""

    async def read(store: MetadataStore) -> tuple[Versioned[LedgerRanges] | None, int, int]:
        kept = await store.persistence.read(topic)
        lowest, count = 0, 0
        if with_subscriptions:
            async for _, record in store.subscriptions.read_subscriptions(topic):
                consumed = record.value.consumed
                lowest = consumed if not count else min(lowest, consumed)
                count += 1
        return kept, lowest, count

    return with_store(settings.deployment, read)
