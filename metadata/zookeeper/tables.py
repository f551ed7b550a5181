"""Versioned tables over znodes: one for each kind of record, all over one bridge."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Generic, NamedTuple, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import HedwigError
from hedwig.metadata.calls.attempts import deadline_of_all
from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.operations import Operation, Outcome, RecordKey, Write
from hedwig.metadata.contract.table import carry_out
from hedwig.metadata.contract.write_lease import within_lease
from hedwig.metadata.zookeeper.reads.child_names import count_children
from hedwig.metadata.zookeeper.reads.key_ranges import Shares, listed_topics
from hedwig.metadata.zookeeper.reads.listing import Listing
from hedwig.metadata.zookeeper.reads.scanning import scan_children
from hedwig.metadata.zookeeper.reads.tree_scan import TreeScan
from hedwig.metadata.zookeeper.records.paths import RecordPath
from hedwig.metadata.zookeeper.writes.cas import CreateCas
from hedwig.metadata.zookeeper.writes.guarded_read import GuardedRead, look, reading
from hedwig.metadata.zookeeper.writes.mutation import Build, Mutation, TableContext
from hedwig.metadata.zookeeper.writes.shared_creates import SharedCreates
from hedwig.model import SubscriberId, Topic
from hedwig.names import as_topic
from hedwig.versions import NEW, Version, Versioned

__all__ = ["ZnodeTable"]

R = TypeVar("R")


class _Creation(NamedTuple, Generic[R]):
    """An operation of one `apply` that creates a record; `position` is its index there."""

    position: int
    mutation: Mutation[R]
    cas: CreateCas[R]


class ZnodeTable(Generic[R]):
    """A VersionedTable. `path_of` returns where a key's record is; `record_name` names the child of its topic."""

    def __init__(self, context: TableContext[R], path_of: Callable[[RecordKey], RecordPath], record_name: str) -> None:
        self._context = context
        self._path_of = path_of
        self._record_name = record_name
        self._shared_creates = SharedCreates[R](context.bridge, context.forecast)
        self._listing = Listing(context.bridge, context.paths, context.options, (record_name,))
        self._tree_scan = TreeScan({record_name: context}, self._listing)

    async def read(self, key: RecordKey, deadline: Deadline | None = None) -> Versioned[R] | None:
        context = self._context
        context.kind.check(key)
        record_path = self._path_of(key)

        async def attempt(deadline: Deadline) -> GuardedRead:
            return await look(context.bridge, record_path, deadline)

        sight = await reading(context.options, f"reading the {context.kind.noun} of {key}", attempt, deadline)
        return None if sight.content is None else context.versioned(key, record_path.path, sight.content, sight.guard)

    async def write(
        self, key: RecordKey, record: R, version: Version, *, merge: bool = False, deadline: Deadline | None = None
    ) -> Version:
        build = self._builder(key, record, merge=merge)
        return await self._mutation(key, "writing", deadline).write(build, version, merge=merge)

    def _builder(self, key: RecordKey, record: R, *, merge: bool = False) -> Build:
        """Return the function that makes the bytes of a record. Raises InvalidArgumentError - it cannot be stored."""
        context = self._context
        context.kind.check(key)
        # Encode before anything is sent, also for a merge, so that a record that cannot be stored is refused at once.
        body = context.codec.encode(record)
        context.kind.check_size(key, body)

        def build(stored: bytes | None) -> bytes:
            if stored is None or not merge:
                return body
            merged = context.codec.merge(stored, record)
            context.kind.check_size(key, merged)
            return merged

        return build

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        self._context.kind.check_delete(key, version)
        await self._mutation(key, "deleting", deadline).delete(version)

    async def apply(self, operations: Sequence[Operation[R]], deadline: Deadline | None = None) -> list[Outcome[R]]:
        until = deadline or deadline_of_all(self._context.options, len(operations))
        outcomes: list[Outcome[R]] = [Outcome()] * len(operations)
        new = [index for index, each in enumerate(operations) if isinstance(each, Write) and each.version == NEW]
        together = new if len(new) > 1 else []
        alone = sorted(set(range(len(operations))).difference(together))
        waiting = iter(alone)

        async def work() -> None:
            for index in waiting:
                outcomes[index] = await carry_out(self, operations[index], until)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(alone), self._context.options.in_flight_max)):
                group.create_task(work())
            for creations in self._companies(operations, together, outcomes, until):
                group.create_task(self._create_together(creations, outcomes))
        return outcomes

    def _companies(
        self, operations: Sequence[Operation[R]], indexes: Sequence[int], outcomes: list[Outcome[R]], deadline: Deadline
    ) -> Iterator[list["_Creation[R]"]]:
        """Yield the creates in groups, one transaction each. A record that cannot be stored gets its outcome here."""
        creations: list[_Creation[R]] = []
        for index in indexes:
            operation = operations[index]
            assert isinstance(operation, Write)
            try:
                build = self._builder(operation.key, operation.record)
            except HedwigError as exc:
                outcomes[index] = Outcome(error=exc)
                continue
            mutation = self._mutation(operation.key, "writing", deadline)
            creations.append(_Creation(index, mutation, mutation.create(build)))
        for company in self._shared_creates.companies([each.cas for each in creations]):
            yield [creations[index] for index in company]

    async def _create_together(self, creations: Sequence["_Creation[R]"], outcomes: list[Outcome[R]]) -> None:
        deadline = within_lease(self._context.options.clock, creations[0].mutation.deadline)
        await self._shared_creates.carry_out([each.cas for each in creations], deadline)

        async def finish(creation: _Creation[R]) -> None:
            try:
                outcomes[creation.position] = Outcome(version=await creation.mutation.finish_create(creation.cas))
            except HedwigError as exc:
                outcomes[creation.position] = Outcome(error=exc)

        for creation in creations:
            if creation.cas.is_done:
                outcomes[creation.position] = Outcome(version=creation.cas.version)
        await asyncio.gather(*(finish(creation) for creation in creations if not creation.cas.is_done))

    async def scan(self, topic: Topic) -> AsyncIterator[tuple[SubscriberId, Versioned[R]]]:
        context = self._context
        as_topic(topic)
        parent = context.paths.subscribers(topic)
        what = f"reading the subscriptions of {RecordKey(topic)}"
        async for subscriber, content, guard in scan_children(context.bridge, context.options, parent, what):
            key = RecordKey(topic, subscriber)
            yield subscriber, context.versioned(key, context.paths.subscription(key).path, content, guard)

    async def count_of(self, topic: Topic) -> int:
        context = self._context
        as_topic(topic)
        what = f"counting the subscriptions of {RecordKey(topic)}"
        (number,) = await count_children(context.bridge, context.options, [context.paths.subscribers(topic)], what)
        return number or 0

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncIterator[Topic]:
        return self._listing.topics(prefix, start_after)

    async def records(
        self, prefix: bytes | None, start_after: Topic | None
    ) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        async with aclosing(self._tree_scan.pages(prefix, start_after, self._context.options.page_rows)) as pages:
            async for page in pages:
                yield [(item.key, item.outcome) for item in page]

    async def key_ranges(self, parts: int, prefix: bytes | None, rows_min: int) -> list[KeyRange]:
        shares = Shares(self._record_name)
        async with aclosing(self._listing.counted_topics(prefix, None)) as topics:
            await shares.take(topics)
        # Packing very many names takes long, and must not block the event loop.
        return await asyncio.to_thread(shares.ranges, self._context.kind.name, prefix or b"", parts, rows_min)

    async def range_records(self, keys: KeyRange) -> AsyncGenerator[Sequence[tuple[RecordKey, Outcome[R]]], None]:
        topics = listed_topics(keys.listed or b"")
        counted = ((topic, {self._record_name: number}) for topic, number in topics)
        async with aclosing(self._tree_scan.pages_of(counted, self._context.options.page_rows)) as pages:
            async for page in pages:
                yield [(item.key, item.outcome) for item in page]

    async def count(self) -> int:
        return sum((await self._listing.count()).values())

    def _mutation(self, key: RecordKey, doing: str, deadline: Deadline | None) -> Mutation[R]:
        return Mutation(self._context, key, self._path_of(key), doing, deadline)
