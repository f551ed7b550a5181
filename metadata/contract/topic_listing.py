"""Listing the topics of several tables as one listing: every topic once, in the backend's key order."""

import heapq
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from hedwig.metadata.contract.table import VersionedTable
from hedwig.model import Topic

__all__ = ["merge_topics"]


async def merge_topics(
    tables: Sequence[VersionedTable[Any]],
    sort_key: Callable[[Topic], bytes],
    prefix: bytes | None,
    start_after: Topic | None,
) -> AsyncGenerator[Topic, None]:
    """Iterate over the topics that have a record in any of `tables`. One page of each is held in memory."""
    heads: list[tuple[bytes, int, Topic]] = []
    async with AsyncExitStack() as stack:
        listings = [table.topics(prefix, start_after) for table in tables]
        for listing in listings:
            if isinstance(listing, AsyncGenerator):
                await stack.enter_async_context(aclosing(listing))

        async def advance(index: int) -> None:
            topic = await anext(listings[index], None)
            if topic is not None:
                heapq.heappush(heads, (sort_key(topic), index, topic))

        for index in range(len(listings)):
            await advance(index)
        last: Topic | None = None
        while len(heads) > 1:
            _, index, topic = heapq.heappop(heads)
            await advance(index)
            if topic != last:
                yield topic
            last = topic
        for _, index, topic in heads:
            # Only one table has topics left, so there is nothing more to merge.
            if topic != last:
                yield topic
            async for topic in listings[index]:
                yield topic
