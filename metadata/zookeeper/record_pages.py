"""The records of very many topics, page by page: the tree has no order of its own to read along, so topics are listed,
and their nodes read, many at once.

What is held at a time is bounded by records, whatever the topics are like: the subscriptions of topics with few of them
are read side by side; a topic with more waits for its turn and is read alone, a page at a time. Only the names of its
subscribers come in one reply, as always in ZooKeeper.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import CorruptRecordError
from hedwig.model import Topic
from metadata.operations import Operation, Outcome, Read, RecordKey, outcome_of
from metadata.zookeeper.mutation import Ground
from metadata.zookeeper.requests import exists
from metadata.zookeeper.scanning import scan_children
from metadata.zookeeper.sight import Found, answer, reading

__all__ = ["subscription_pages", "topic_record_pages"]

R = TypeVar("R")
T = TypeVar("T")

Pair: TypeAlias = tuple[RecordKey, Outcome[R]]

_READS_AT_ONCE: Final = 256
_TOPICS_AHEAD: Final = 64
_FEW: Final = 64
"""Up to so many subscriptions of a topic are read ahead of their turn; times _TOPICS_AHEAD, what is held at most."""


async def topic_record_pages(
    apply: Callable[[Sequence[Operation[R]]], Awaitable[list[Outcome[R]]]],
    topics: AsyncIterator[Topic],
    page_rows: int,
) -> AsyncIterator[list[Pair[R]]]:
    """Iterate over pages of the records that topics have one of each. Raises what `apply` has as an error."""
    async for names in _chunks(topics, min(page_rows, _READS_AT_ONCE)):
        keys = [RecordKey(topic) for topic in names]
        outcomes = await apply([Read(key) for key in keys])
        for outcome in outcomes:
            if not isinstance(outcome.error, CorruptRecordError):
                outcome.check()
        # One that vanished since it was listed has neither a record nor an error.
        if page := [pair for pair in zip(keys, outcomes, strict=True) if pair[1] != Outcome()]:
            yield page


async def subscription_pages(ground: Ground[R], topics: AsyncIterator[Topic]) -> AsyncGenerator[list[Pair[R]], None]:
    """Iterate over pages of the subscriptions of `topics`, topic by topic."""
    ahead: deque[tuple[Topic, asyncio.Task[list[Pair[R]] | None]]] = deque()
    try:
        async for names in _chunks(topics, _TOPICS_AHEAD // 2):
            for topic in names:
                ahead.append((topic, asyncio.create_task(_few(ground, topic))))
            while len(ahead) > _TOPICS_AHEAD // 2:
                async with aclosing(_next_pages(ground, ahead)) as pages:
                    async for page in pages:
                        yield page
        while ahead:
            async with aclosing(_next_pages(ground, ahead)) as pages:
                async for page in pages:
                    yield page
    finally:
        for _, task in ahead:
            task.cancel()
        await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)


async def _next_pages(
    ground: Ground[R], ahead: "deque[tuple[Topic, asyncio.Task[list[Pair[R]] | None]]]"
) -> AsyncGenerator[list[Pair[R]], None]:
    """Take the first topic off `ahead`, and further ones as long as they fit into its page."""
    page: list[Pair[R]] = []
    large: Topic | None = None
    while ahead and len(page) < ground.options.page_rows:
        topic, task = ahead[0]
        # Unlike awaiting the task, asyncio.wait leaves it in `ahead`, to be ended there, when this is cancelled.
        await asyncio.wait([task])
        few = task.result()
        ahead.popleft()
        if few is None:
            large = topic
            break
        page += few
    if page:
        yield page
    if large is not None:
        async for many in _chunks(_subscriptions(ground, large), ground.options.page_rows):
            yield many


async def _few(ground: Ground[R], topic: Topic) -> list[Pair[R]] | None:
    """Return the subscriptions of a topic; None if they are too many to be read ahead."""
    parent = ground.places.subscribers(topic)

    async def count(deadline: Deadline) -> int:
        (result,) = await ground.bridge.send(deadline, exists(parent))
        stat = answer(result)
        return 0 if stat is None else int(stat.numChildren)

    number = await reading(ground.options, f"counting the subscriptions of {RecordKey(topic)}", count)
    return None if number > _FEW else [pair async for pair in _subscriptions(ground, topic)]


async def _subscriptions(ground: Ground[R], topic: Topic) -> AsyncIterator[Pair[R]]:
    parent = ground.places.subscribers(topic)
    what = f"reading the subscriptions of {RecordKey(topic)}"
    async for subscriber, node, guard in scan_children(ground.bridge, ground.options, parent, what):
        yield _pair(ground, RecordKey(topic, subscriber), node, guard)


def _pair(ground: Ground[R], key: RecordKey, node: Found, guard: int | None) -> Pair[R]:
    path = ground.places.subscription(key).path
    return key, outcome_of(lambda: ground.versioned(key, path, node, guard))


async def _chunks(items: AsyncIterator[T], most: int) -> AsyncIterator[list[T]]:
    """Iterate over lists of up to `most` items."""
    chunk: list[T] = []
    try:
        async for item in items:
            chunk.append(item)
            if len(chunk) >= most:
                yield chunk
                chunk = []
        if chunk:
            yield chunk
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()
