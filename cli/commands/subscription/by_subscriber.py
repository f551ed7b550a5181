"""Writes the subscriptions of one subscriber, on whatever topics they are."""

from contextlib import aclosing
from typing import Any, Final

from hedwig.cli.arguments.selection import Selection
from hedwig.cli.output.fields import subscription_fields
from hedwig.cli.output.formats import Output
from hedwig.metadata import MetadataStore, ScannedRecord
from hedwig.model import SubscriberId, Topic
from hedwig.names import name_fields
from hedwig.operations.progress import listing_progress

__all__ = ["COLUMNS_BY_SUBSCRIBER", "SHOWN_BY_SUBSCRIBER", "SUBSCRIPTION_COLUMNS", "write_by_subscriber"]

SUBSCRIPTION_COLUMNS: Final = (
    "subscriber",
    "consumed",
    "consumed_remote",
    "message_bound",
    "message_window_size",
    "message_filter",
    "options",
    "version",
)
"""The fields of a subscription in a listing."""
COLUMNS_BY_SUBSCRIBER: Final = ("topic", *SUBSCRIPTION_COLUMNS, "error")
SHOWN_BY_SUBSCRIBER: Final = ("topic", "consumed", "version")


async def write_by_subscriber(
    store: MetadataStore, subscriber: SubscriberId, selection: Selection, output: Output
) -> None:
    """Write the subscriptions of `selection` into a listing that was begun, and end it. One page is in memory.

    The names of the selection are topics. The order is that of the store.
    """
    listing = f"subscriptions of {subscriber.hex()} {store.url.text}"
    start, prefix, left = selection.start(listing), selection.prefix or b"", selection.names_max
    token = None
    with listing_progress("subscriptions") as progress:
        after = None if start is None else Topic(start)
        pages = store.subscriptions_of(subscriber, after, lambda number: progress.advance(number, 0))
        async with aclosing(pages):
            last = b""
            async for page in pages:
                found = [record for record in page if record.key.topic.startswith(prefix)]
                shown = found if left is None else found[:left]
                output.page([_fields(record) for record in shown])
                last = shown[-1].key.topic if shown else last
                left = None if left is None else left - len(shown)
                if len(shown) < len(found):
                    token = selection.token(listing, last)
                    break
    output.end(token)


def _fields(record: ScannedRecord) -> dict[str, Any]:
    """Return a subscription with its topic; of one that cannot be read the names, and why."""
    assert record.key.subscriber is not None, "it is a subscription"
    if record.error is not None:
        return {**name_fields(record.key.topic, record.key.subscriber), "error": str(record.error)}
    return {**name_fields(record.key.topic), **subscription_fields(record.key.subscriber, record.read())}
