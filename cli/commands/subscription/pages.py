"""Reads the subscriptions of a topic page by page, in bounded memory."""

import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeAlias

from hedwig.cli.arguments.selection import Selection
from hedwig.cli.output.formats import Output, Row
from hedwig.metadata import MetadataStore
from hedwig.model import SubscriberId, SubscriptionData, Topic
from hedwig.operations.progress import LoadProgress, listing_progress
from hedwig.versions import Versioned

__all__ = ["Entry", "listing_of", "write_subscriptions"]

Entry: TypeAlias = tuple[SubscriberId, Versioned[SubscriptionData]]

_PAGE_ROWS: Final = 500


def listing_of(topic: Topic, url: str) -> str:
    """Return the name of a listing in page tokens: the subscriptions of a topic in the store at `url`."""
    return f"subscriptions {topic.hex()} {url}"


async def write_subscriptions(
    store: MetadataStore,
    topic: Topic,
    selection: Selection,
    output: Output,
    row_of: Callable[[SubscriberId, Versioned[SubscriptionData]], Row],
) -> None:
    """Write the subscriptions of `selection` into a listing that was begun, and end it.

    A store lists the subscribers of a topic in its own order, and only from the first. So a page is chosen by reading
    all of them and comparing their bytes. Memory holds at most twice the page. Without a limit, they are written in the
    order of the store.
    """
    listing = listing_of(topic, store.url.text)
    start, limit = selection.start(listing) or b"", selection.names_max
    with listing_progress("subscriptions") as progress:
        wanted = _wanted(store, topic, start, selection.prefix or b"", progress)
        if limit is None:
            async for page in _pages(wanted):
                output.page([row_of(*entry) for entry in page])
            least: Sequence[Entry] = ()
        else:
            least = await _least(wanted, limit + 1)
    if limit is None:
        output.end()
        return
    output.page([row_of(*entry) for entry in least[:limit]])
    output.end(selection.token(listing, least[limit - 1][0]) if len(least) > limit else None)


async def _wanted(
    store: MetadataStore, topic: Topic, start: bytes, prefix: bytes, progress: LoadProgress
) -> AsyncIterator[Entry]:
    number = 0
    async for subscriber, record in store.subscriptions.read_subscriptions(topic):
        number += 1
        if number % _PAGE_ROWS == 0:
            progress.advance(_PAGE_ROWS, 0)
        if subscriber > start and subscriber.startswith(prefix):
            yield subscriber, record


async def _least(entries: AsyncIterator[Entry], most: int) -> Sequence[Entry]:
    """Return the first `most` by subscriber. Holds at most twice as many."""
    least: list[Entry] = []
    async for item in entries:
        least.append(item)
        if len(least) >= 2 * most:
            least = heapq.nsmallest(most, least, key=lambda each: each[0])
    return heapq.nsmallest(most, least, key=lambda each: each[0])


async def _pages(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    page: list[Entry] = []
    async for item in entries:
        page.append(item)
        if len(page) == _PAGE_ROWS:
            yield page
            page = []
    yield page
