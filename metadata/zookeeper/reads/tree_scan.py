"""The records of very many topics: one walk over the tree for all kinds together, and reads of what it finds.

The walk finds which records a topic has, so the scan never asks for an absent one. The number of records held at a time
is bounded, for topics of any size. Topics with few subscriptions are read side by side, some hundred records at once. A
topic with more waits for its turn and is read alone, a page at a time. Only the names of its subscribers come in one
reply, as always in ZooKeeper.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from hedwig.clock import Deadline
from hedwig.metadata.contract.operations import RecordKey, outcome_of
from hedwig.metadata.contract.scan import ScannedRecord
from hedwig.metadata.zookeeper.reads.child_names import ChildNames, read_children
from hedwig.metadata.zookeeper.reads.listing import Listing
from hedwig.metadata.zookeeper.reads.scanning import scan_children
from hedwig.metadata.zookeeper.records.paths import subscriber_of
from hedwig.metadata.zookeeper.writes.guarded_read import NodeContent, answer, content_of, reading
from hedwig.metadata.zookeeper.writes.mutation import TableContext
from hedwig.model import Topic
from hedwig.zookeeper import Request, exists, get

__all__ = ["TreeScan"]

_SUBSCRIBERS: Final = "subscribers"
_READS_AT_ONCE: Final = 256
"""About how many records are asked for together; of the maximal size, they are 128 MiB."""
_PARCELS_AHEAD: Final = 1
_FEW: Final = 64
"""A topic's subscriptions are read together with its neighbours' records if they are at most this many."""


@dataclass(slots=True)
class _Parcel:
    """Neighbouring topics whose records are read at once: each with its record names and how many of each.

    `large`, the last of them, also has many subscriptions, which are read in their turn.
    """

    topics: list[tuple[Topic, Mapping[str, int]]] = field(default_factory=list)
    records: int = 0
    large: Topic | None = None

    def add(self, topic: Topic, records: Mapping[str, int]) -> None:
        if records.get(_SUBSCRIBERS, 0) > _FEW:
            self.large = topic
            records = {name: number for name, number in records.items() if name != _SUBSCRIBERS}
        self.topics.append((topic, records))
        self.records += sum(records.values())


@dataclass(frozen=True, slots=True)
class _Nodes:
    """Nodes to read right after their parent: each with its name, the context of its table and its record's key."""

    parent: str
    records: Sequence[tuple[str, TableContext[Any], RecordKey]]


_CountedTopics: TypeAlias = AsyncGenerator[tuple[Topic, Mapping[str, int]], None]
"""Topics, each with how many records of each name it has."""


class TreeScan:
    """Scans for the records of `contexts`, each by the name of its node, in the order in which they are given."""

    def __init__(self, contexts: Mapping[str, TableContext[Any]], listing: Listing) -> None:
        """`listing` lists topics that have any of these."""
        self._contexts = contexts
        self._listing = listing
        context = next(iter(contexts.values()))
        self._bridge, self._paths, self._options = context.bridge, context.paths, context.options
        self._what = f"reading the records under {self._paths.topics}"

    async def pages(
        self, prefix: bytes | None, start_after: Topic | None, page_rows: int
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages of the records, topic by topic, as `MetadataStore.scan`."""
        async with (
            aclosing(self._listing.counted_topics(prefix, start_after)) as topics,
            aclosing(self._pages(topics, page_rows)) as pages,
        ):
            async for page in pages:
                yield page

    async def pages_of(
        self, counted: Iterable[tuple[Topic, Mapping[str, int]]], page_rows: int
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages of the records of topics that were listed before, each with how many it had."""
        async with (
            aclosing(_one_by_one(counted)) as topics,
            aclosing(self._pages(topics, page_rows)) as pages,
        ):
            async for page in pages:
                yield page

    async def _pages(self, topics: _CountedTopics, page_rows: int) -> AsyncGenerator[list[ScannedRecord], None]:
        page: list[ScannedRecord] = []
        async with aclosing(self._runs(topics)) as runs:
            async for run in runs:
                page += run
                run.clear()
                while len(page) >= page_rows:
                    yield page[:page_rows]
                    page = page[page_rows:]
        if page:
            yield page

    async def _runs(self, topics: _CountedTopics) -> AsyncGenerator[list[ScannedRecord], None]:
        ahead: deque[tuple[_Parcel, asyncio.Task[list[ScannedRecord]]]] = deque()
        try:
            async with aclosing(self._parcels(topics)) as parcels:
                while True:
                    parcel = await anext(parcels, None)
                    if parcel is not None:
                        ahead.append((parcel, asyncio.create_task(self._read(parcel))))
                    while ahead and (parcel is None or len(ahead) > _PARCELS_AHEAD):
                        # Unlike awaiting the task, asyncio.wait leaves it in `ahead`, to be cancelled if this ends.
                        await asyncio.wait([ahead[0][1]])
                        large = ahead[0][0].large
                        yield ahead.popleft()[1].result()
                        if large is not None:
                            async with aclosing(self._many(large)) as runs:
                                async for run in runs:
                                    yield run
                    if parcel is None:
                        return
        finally:
            for _, task in ahead:
                task.cancel()
            await asyncio.gather(*(task for _, task in ahead), return_exceptions=True)

    async def _parcels(self, topics: _CountedTopics) -> AsyncGenerator[_Parcel, None]:
        most = min(_READS_AT_ONCE, self._options.page_rows)
        parcel = _Parcel()
        async for topic, records in topics:
            parcel.add(topic, records)
            if parcel.large is not None or parcel.records >= most:
                yield parcel
                parcel = _Parcel()
        if parcel.topics:
            yield parcel

    async def _read(self, parcel: _Parcel) -> list[ScannedRecord]:
        names = await self._subscribers(parcel)
        wanted = [nodes for topic, records in parcel.topics for nodes in self._nodes(topic, records, names)]
        requests: list[Request] = []
        for nodes in wanted:
            # The parent first: the guard is never newer than what it guards.
            requests.append(exists(nodes.parent))
            requests += (get(f"{nodes.parent}/{name}") for name, _, _ in nodes.records)

        async def attempt(deadline: Deadline) -> list[tuple[int | None, list[NodeContent | None]]]:
            results = iter(await self._bridge.send(deadline, *requests))
            reads = []
            for nodes in wanted:
                stat = answer(next(results))
                guard = None if stat is None else int(stat.version)
                reads.append((guard, [content_of(next(results)) for _ in nodes.records]))
            return reads

        met: list[ScannedRecord] = []
        if not wanted:
            return met
        for nodes, (guard, contents) in zip(wanted, await reading(self._options, self._what, attempt), strict=True):
            for (name, context, key), content in zip(nodes.records, contents, strict=True):
                # None: the record vanished after the walk found it.
                if content is not None:
                    met.append(_scanned(context, key, f"{nodes.parent}/{name}", content, guard))
        return met

    async def _subscribers(self, parcel: _Parcel) -> Iterator[ChildNames]:
        """Return the names of the subscribers of each topic that has some."""
        having = [(topic, records[_SUBSCRIBERS]) for topic, records in parcel.topics if records.get(_SUBSCRIBERS)]
        paths = [self._paths.subscribers(topic) for topic, _ in having]
        numbers = [number for _, number in having]
        return iter(await read_children(self._bridge, self._options, paths, numbers, self._what))

    def _nodes(self, topic: Topic, records: Mapping[str, int], subscribers: Iterator[ChildNames]) -> Iterator[_Nodes]:
        """Iterate over the nodes to read of a topic. If it has subscriptions, `subscribers` yields their names next."""
        own = [
            (name, context, RecordKey(topic))
            for name, context in self._contexts.items()
            if name in records and name != _SUBSCRIBERS
        ]
        if own:
            yield _Nodes(self._paths.topic(topic), own)
        if records.get(_SUBSCRIBERS):
            context = self._contexts[_SUBSCRIBERS]
            named = ((name, subscriber_of(name)) for name in next(subscribers))
            known = [(name, context, RecordKey(topic, who)) for name, who in named if who is not None]
            yield _Nodes(self._paths.subscribers(topic), known)

    async def _many(self, topic: Topic) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over the subscriptions of a topic with many of them."""
        context = self._contexts[_SUBSCRIBERS]
        parent = self._paths.subscribers(topic)
        what = f"reading the subscriptions of {RecordKey(topic)}"
        run: list[ScannedRecord] = []
        async for subscriber, content, guard in scan_children(self._bridge, self._options, parent, what):
            key = RecordKey(topic, subscriber)
            run.append(_scanned(context, key, self._paths.subscription(key).path, content, guard))
            if len(run) >= _FEW:
                yield run
                run = []
        yield run


async def _one_by_one(topics: Iterable[tuple[Topic, Mapping[str, int]]]) -> _CountedTopics:
    for each in topics:
        yield each


def _scanned(
    context: TableContext[Any], key: RecordKey, path: str, content: NodeContent, guard: int | None
) -> ScannedRecord:
    return ScannedRecord(context.kind, key, outcome_of(lambda: context.versioned(key, path, content, guard)))
