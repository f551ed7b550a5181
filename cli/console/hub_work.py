"""What some commands of the console do at hubs: they try a topic out, and remove numbered subscriptions."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from hedwig.cli.output.fields import name_fields
from hedwig.cli.settings.hub_access import HubAccess, with_hub
from hedwig.cli.settings.settings import Settings
from hedwig.client import CreateOrAttach, HedwigClient, Subscription
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import as_subscriber, show_name
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import missing_subscription
from hedwig.operations.progress import load_progress
from hedwig.operations.topics.subscription_access import consumed_of

__all__ = ["check_delivery", "remove_subscriptions", "stored_pointer"]


def check_delivery(
    settings: Settings, hub: HubAccess, topic: Topic, subscriber: SubscriberId, within_s: float, body: bytes
) -> dict[str, Any]:
    """Publish a message to a new subscription, and return how long its delivery took; delete the subscription.

    Raises: OperationError - a hub refuses, or the message did not arrive within `within_s` seconds.
    """
    made = as_subscriber(b"%s-%d" % (subscriber, time.time_ns() // 1_000_000))

    async def attempt(client: HedwigClient) -> dict[str, Any]:
        opened = await client.subscribe(topic, made, mode=CreateOrAttach.CREATE)
        try:
            began = time.monotonic()
            published = await client.publish(topic, body)
            published_ms = (time.monotonic() - began) * 1000
            try:
                async with asyncio.timeout(within_s):
                    await _receive(opened, published)
            except TimeoutError as exc:
                raise OperationError(
                    f"{settings.command} failed on topic '{show_name(topic)}': message {published.local} was published "
                    f"and did not come to subscriber '{show_name(made)}' within {within_s:g} s",
                    ExitCode.OUTCOME_UNKNOWN,
                ) from exc
            received_ms = (time.monotonic() - began) * 1000
        finally:
            await client.unsubscribe(topic, made)
        return name_fields(topic, made) | {
            "id": published.local,
            "published_ms": round(published_ms, 1),
            "received_ms": round(received_ms, 1),
        }

    return with_hub(settings, hub, f"topic '{show_name(topic)}'", attempt)


def stored_pointer(settings: Settings, topic: Topic, subscriber: SubscriberId) -> int:
    """Return the consume pointer in the store. Raises: OperationError - no such subscription; MetadataError."""

    async def read(store: MetadataStore) -> int:
        record = await store.subscriptions.read(topic, subscriber)
        if record is None:
            raise missing_subscription(topic, subscriber)
        return consumed_of(record)

    return with_store(settings.deployment, read)


async def _receive(opened: Subscription, wanted: MessageSeqId) -> None:
    """Return once the wanted message has arrived. Others may have been published before it."""
    async for message in opened:
        if message.seq_id.local >= wanted.local:
            return


def remove_subscriptions(
    settings: Settings, hub: HubAccess, topics: str, wanted: Iterable[tuple[Topic, SubscriberId]]
) -> None:
    """Subscribe and unsubscribe each, so that none of them exists afterwards. `topics` names them in errors.

    Raises: OperationError - a hub refuses; those before it are removed.
    """

    async def remove(client: HedwigClient) -> None:
        with load_progress("removing subscriptions", None, noun="subscriptions") as progress:
            for topic, subscriber in wanted:
                await client.subscribe(topic, subscriber, mode=CreateOrAttach.CREATE_OR_ATTACH, auto_consume=False)
                await client.unsubscribe(topic, subscriber)
                progress.advance(1, 0)

    with_hub(settings, hub, f"subscriptions of topics {topics}", remove)
