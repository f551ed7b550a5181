"""What the metadata store adds to what hubs tell their clients.

A hub does not answer a consume. It also answers alike for a missing topic and for a missing subscriber. Its store has
the pointer, and knows which topics exist. The user of a hub may have no store, or another one. So what cannot be read
there, or does not match, counts as not known. A look never makes a store.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from hedwig.client import HubAddress
from hedwig.clock import SystemClock
from hedwig.errors import HedwigError
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.model import SubscriberId, Topic
from hedwig.operations.deployment.deployment import Deployment, without_making
from hedwig.operations.errors import missing_topic

__all__ = ["check_topic_of_hub", "pointer_after_consume"]

T = TypeVar("T")

_LOOK_S: Final = 5.0
"""The hub has done its part, or is about to, so the user waits for a store no longer than this."""


def check_topic_of_hub(deployment: Deployment, hub: HubAddress, topic: Topic) -> None:
    """Raise OperationError if the hub is the standalone hub of the store, and the store has no record of the topic."""

    async def is_absent(store: MetadataStore) -> bool:
        registered = await store.standalone_hub()
        if registered is None or registered.address.rsplit(":", 1)[0] != f"{hub.host}:{hub.port}":
            return False
        return not await store.has_topic(topic)

    absent = False
    with contextlib.suppress(HedwigError, TimeoutError):
        absent = _with_store_that_is_there(deployment, is_absent)
    if absent:
        raise missing_topic(topic)


def pointer_after_consume(deployment: Deployment, topic: Topic, subscriber: SubscriberId, wanted: int) -> int | None:
    """Return the consume pointer after its hub has stored it; None if it is not known.

    Writes to standard error if it is not known, or is not as far as `wanted`.
    """

    async def look(store: MetadataStore) -> int | None:
        await FreezeWatch(store.named_records, SystemClock()).check()
        record = await store.subscriptions.read(topic, subscriber)
        if record is None or await store.ownership.read(topic) is None:
            return None
        return record.value.consumed

    why = f"{deployment.url_to_show} is not the store of that hub"
    consumed: int | None = None
    try:
        consumed = _with_store_that_is_there(deployment, look)
    except (HedwigError, TimeoutError) as exc:
        why = " ".join(str(exc).split()) or f"{deployment.url_to_show} does not answer"
    if consumed is None:
        click.echo(
            f"it was consumed; the position of the pointer, at most that of the last message, is not known: {why}",
            err=True,
        )
    elif consumed < wanted:
        click.echo(
            f"the pointer stands at {consumed}, since it goes no further than the last message. Messages that are "
            f"published from now on are delivered, message {wanted} too",
            err=True,
        )
    return consumed


def _with_store_that_is_there(deployment: Deployment, look: Callable[[MetadataStore], Awaitable[T]]) -> T:
    options = deployment.store_options()

    async def run() -> T:
        async with (
            asyncio.timeout(_LOOK_S),
            await open_metadata(without_making(deployment.url_to_show), options) as store,
        ):
            return await look(store)

    return asyncio.run(run())
