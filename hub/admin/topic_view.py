"""The views of topics and subscriptions at the admin endpoint."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hedwig.errors import ClientNotSubscribedError
from hedwig.hub.admin.name_page import NamePage, page_token
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.topics.topic import OwnedTopic
from hedwig.model import LedgerRange, SubscriberId, Topic
from hedwig.names import bytes_fields, name_fields, show_name

if TYPE_CHECKING:
    from hedwig.hub.hub import Hub

__all__ = ["lag_of", "lag_page", "topic_page", "topic_view"]

_SLICE: Final = 5000
"""How many topics a page visits before it lets other tasks run."""
_RANGES_MAX: Final = 1000


async def topic_page(hub: "Hub", limit: int, start_after: bytes, sees: Callable[[Topic], bool]) -> Mapping[str, Any]:
    """Return a page of those owned topics that somebody `sees`, sorted by name."""
    page: NamePage[OwnedTopic] = NamePage(limit, start_after)
    for index, topic in enumerate(list(hub.topics)):
        if index % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        if page.takes(topic.name) and sees(topic.name):
            page.offer(topic.name, topic)
    rows = page.rows()
    return {
        "topics": [_summary(topic) for _, topic in rows],
        "owned": len(hub.topics),
        "next": page_token(rows[-1][0]) if page.is_cut else None,
    }


def topic_view(hub: "Hub", topic: OwnedTopic, limit: int) -> Mapping[str, Any]:
    """Return all details of one owned topic, with at most `limit` of its attached subscriptions."""
    page: NamePage[Mapping[str, Any]] = NamePage(limit)
    for subscriber, subscription in (topic.subscriptions or {}).items():
        if subscription.cursor is not None:
            row = {
                **bytes_fields("subscriber", subscriber),
                "client": subscription.cursor.channel.peer,
                "standbys": hub.subscribing.standbys.waiting(topic.name, subscriber),
                "consumed": subscription.consumed,
                "stored": subscription.stored,
                "next_id": subscription.cursor.next_id,
                "lag_messages": topic.log.last_id - subscription.consumed,
            }
            page.offer(subscriber, row)
    ranges = topic.log.ranges.ranges if isinstance(topic.log, DurableLog) else ()
    now = hub.topics.now()
    return {
        **_summary(topic),
        "first_id": topic.log.first_id,
        "owned_for_s": now - topic.claimed_at,
        "unused_for_s": now - topic.used_at,
        "owner_version": str(topic.owner_version),
        "ranges": [_range(each) for each in ranges[-_RANGES_MAX:]],
        "ranges_count": len(ranges),
        "subscriptions": [row for _, row in page.rows()],
        "subscriptions_are_cut": page.is_cut,
    }


async def lag_page(hub: "Hub", topic: OwnedTopic, limit: int, start_after: bytes) -> Mapping[str, Any]:
    """Return the lag of a page of the subscriptions of a topic, attached or not, and the largest lag of all.

    Raises: MetadataError.
    """
    page: NamePage[Mapping[str, Any]] = NamePage(limit, start_after)
    count = lag_max = 0

    def take(subscriber: SubscriberId, stored: int) -> None:
        nonlocal count, lag_max
        row = _lag(topic, subscriber, stored)
        count += 1
        lag_max = max(lag_max, row["lag_messages"])
        page.offer(subscriber, row)

    if topic.is_durable:
        async for subscriber, record in hub.metadata.subscriptions.read_subscriptions(topic.name):
            take(subscriber, record.value.consumed)
    else:  # The subscriptions of a non-durable topic are in memory only.
        for subscriber, subscription in list((topic.subscriptions or {}).items()):
            take(subscriber, subscription.stored)
    rows = page.rows()
    return {
        **name_fields(topic.name),
        "last_id": topic.log.last_id,
        "subscriptions": [row for _, row in rows],
        "count": count,
        "lag_messages_max": lag_max,
        "next": page_token(rows[-1][0]) if page.is_cut else None,
    }


async def lag_of(hub: "Hub", topic: OwnedTopic, subscriber: SubscriberId) -> Mapping[str, Any]:
    """Return the lag of one subscription of a topic, in the form of `lag_page` with one row.

    Raises: ClientNotSubscribedError; MetadataError.
    """
    held = topic.subscription(subscriber)
    stored = None if held is None else held.stored
    if topic.is_durable:
        record = await hub.metadata.subscriptions.read(topic.name, subscriber)
        stored = None if record is None else record.value.consumed
    if stored is None:
        raise ClientNotSubscribedError(
            f"subscriber '{show_name(subscriber)}' is not subscribed to topic '{show_name(topic.name)}'"
        )
    row = _lag(topic, subscriber, stored)
    return {
        **name_fields(topic.name),
        "last_id": topic.log.last_id,
        "subscriptions": [row],
        "count": 1,
        "lag_messages_max": row["lag_messages"],
        "next": None,
    }


def _lag(topic: OwnedTopic, subscriber: SubscriberId, stored: int) -> Mapping[str, Any]:
    """Return the lag of a subscription whose stored pointer is `stored`; in memory it may be further."""
    held = topic.subscription(subscriber)
    consumed = stored if held is None else max(stored, held.consumed)
    return {
        **bytes_fields("subscriber", subscriber),
        "consumed": consumed,
        "lag_messages": max(0, topic.log.last_id - consumed),
        "attached": held is not None and held.cursor is not None,
    }


def _summary(topic: OwnedTopic) -> Mapping[str, Any]:
    return {
        **name_fields(topic.name),
        "state": topic.state.name.lower(),
        "durable": topic.is_durable,
        "last_id": topic.log.last_id,
        "attached": sum(each.cursor is not None for each in (topic.subscriptions or {}).values()),
    }


def _range(each: LedgerRange) -> Mapping[str, Any]:
    return {
        "ledger_id": each.ledger_id,
        "start": each.start,
        "end": each.end.local if each.end is not None else None,
    }
