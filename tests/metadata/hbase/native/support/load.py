"""Load on a store while a test harms its servers, and the check of all that the store reported.

Four kinds of callers work at once. Clients create, update and delete single records, each its own. One client writes
many records in each `apply`. One client lists all topics again and again. The test does the harm.
"""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from hedwig.cli.dev import DevServers
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import (
    MetadataStore,
    Operation,
    Outcome,
    RecordKey,
    StoreOptions,
    Write,
    format_metadata,
    open_metadata,
)
from hedwig.metadata.contract.kinds import OWNERSHIP, RecordKind
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.model import Topic
from hedwig.versions import NEW, Version, Versioned
from tests.faults.support.workload import Workload
from tests.metadata.hbase.native.support.tables import drop_tables

__all__ = ["Load", "Trouble", "harm_under_load"]

T = TypeVar("T")

CLIENTS: Final = 24
BATCH: Final = 100

Trouble = Callable[[DevServers, str, "Load"], Awaitable[None]]
"""Harms the servers, and the table of that name, while the load continues."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call: its begin and end, in seconds of the monotonic clock, and its error."""

    start: float
    end: float
    error: MetadataUnavailableError


class WatchedDoor:
    """A door that records the failures of the calls through it."""

    def __init__(self, door: Call) -> None:
        self._door = door
        self.label = door.label
        self.kind: RecordKind[Any] = door.kind
        self.failures: list[Failure] = []

    def key(self, name: bytes) -> RecordKey:
        return self._door.key(name)

    def value(self, number: int) -> Any:
        return self._door.value(number)

    async def read(self, store: MetadataStore, key: RecordKey) -> Versioned[Any] | None:
        return await self.watched(self._door.read(store, key))

    async def write(self, store: MetadataStore, key: RecordKey, value: Any, version: Version) -> Version:
        return await self.watched(self._door.write(store, key, value, version))

    async def delete(self, store: MetadataStore, key: RecordKey, version: Version) -> None:
        await self.watched(self._door.delete(store, key, version))

    async def apply(self, store: MetadataStore, operations: list[Operation[Any]]) -> list[Outcome[Any]]:
        start = time.monotonic()
        outcomes = await self._door.apply(store, operations)
        for outcome in outcomes:
            if isinstance(outcome.error, MetadataUnavailableError):
                self.failures.append(Failure(start, time.monotonic(), outcome.error))
        return outcomes

    def topics(self, store: MetadataStore, prefix: bytes | None = None, start_after: Topic | None = None) -> Any:
        return self._door.topics(store, prefix, start_after)

    async def watched(self, call: Awaitable[T]) -> T:
        """Return the result of a call, and record its failure."""
        start = time.monotonic()
        try:
            return await call
        except MetadataUnavailableError as exc:
            self.failures.append(Failure(start, time.monotonic(), exc))
            raise


class Load:
    """The callers of one store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.door = WatchedDoor(CALLS[0])
        self._topics = [b"topic-%d" % number for number in range(CLIENTS)]
        self._work = Workload(store, self.door, self._topics, random.Random(5))
        self._batch = [b"batch-%d" % number for number in range(BATCH)]
        self._held: dict[bytes, tuple[Version, int]] = {}
        self.counts: Counter[str] = Counter()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all callers until the end of the block."""
        await self._write_batch(0)
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as group, self._work.running(CLIENTS):
            group.create_task(self._write_batches(enough))
            group.create_task(self._list(enough))
            try:
                yield
            finally:
                enough.set()

    async def more(self, writes: int, timeout_s: float = 240.0) -> None:
        """Wait until `writes` more single writes are acknowledged."""
        await self._work.more(writes, timeout_s)

    async def judge(self, afresh: MetadataStore) -> None:
        """Read everything through `afresh` and compare it with all that was reported."""
        await self._work.judge(afresh)
        outcomes = self._work.recorder.outcomes
        print(f"{dict(self.counts)} {len(self.door.failures)} failures")
        assert outcomes["Done"] > 0
        for topic, (version, number) in self._held.items():
            record = await self.door.read(afresh, self.door.key(topic))
            assert record is not None, f"{topic!r}, which was acknowledged at {version}, is lost"
            assert (record.version, record.value) == (version, self.door.value(number)), f"{topic!r} is another one"

    def assert_nobody_noticed(self) -> None:
        """Raise AssertionError if a caller received an error."""
        assert not self.door.failures, f"{len(self.door.failures)} calls failed, as: {self.door.failures[0]}"
        outcomes = self._work.recorder.outcomes
        assert outcomes["Unknown"] == 0, "nobody but one client writes to a record, so its token tells"
        assert outcomes["NotDone"] == 0

    async def _write_batches(self, enough: asyncio.Event) -> None:
        number = 0
        while not enough.is_set():
            number += 1
            await self._write_batch(number)

    async def _write_batch(self, number: int) -> None:
        """Write all records of the batch. No other caller writes them, so the store can refuse no version."""
        operations: list[Operation[Any]] = [
            Write(self.door.key(topic), self.door.value(number), self._held[topic][0] if topic in self._held else NEW)
            for topic in self._batch
        ]
        outcomes = await self.door.apply(self._store, operations)
        for topic, outcome in zip(self._batch, outcomes, strict=True):
            if isinstance(outcome.error, MetadataUnavailableError):
                await self._look_again(topic, number)
            else:
                self._held[topic] = outcome.written(), number
                self.counts["batched writes"] += 1

    async def _look_again(self, topic: bytes, number: int) -> None:
        """Read the result of a failed write: either the record has it, or the record before it is unchanged."""
        record: Versioned[Any] | None = None
        while True:
            try:
                record = await self.door.read(self._store, self.door.key(topic))
                break
            except MetadataUnavailableError:
                self.counts["repeated reads"] += 1
        held = self._held.get(topic)
        if record is not None and record.value == self.door.value(number):
            self._held[topic] = record.version, number
        else:
            shown = None if record is None else (record.version, record.value)
            assert shown == (None if held is None else (held[0], self.door.value(held[1]))), f"{topic!r} was lost"

    async def _list(self, enough: asyncio.Event) -> None:
        """List all topics. The topics of the batch are never deleted, so each listing must have each of them once."""
        while not enough.is_set():
            listed: Counter[bytes] = Counter()

            async def listing(listed: Counter[bytes] = listed) -> None:
                async for topic in self.door.topics(self._store):
                    listed[bytes(topic)] += 1

            try:
                await self.door.watched(listing())
            except MetadataUnavailableError:
                continue
            self.counts["listings"] += 1
            assert all(listed[topic] == 1 for topic in self._batch), "a listing lost a topic, or repeated one"
            assert listed.keys() <= {*self._batch, *self._topics}
            assert max(listed.values()) == 1


async def harm_under_load(launcher: DevServers, trouble: Trouble, options: StoreOptions) -> Load:
    """Put load on new tables, harm the servers meanwhile, and check. Return the load for further checks."""
    namespace = f"u{uuid.uuid4().hex}"
    url = f"hbase://{launcher.address('zookeeper')}/{namespace}"
    patient = replace(options, operation_timeout_s=max(options.operation_timeout_s, 120.0))
    await format_metadata(url, patient)
    async with await open_metadata(url, options) as store, await open_metadata(url, patient) as afresh:
        load = Load(store)
        async with load.running():
            await load.more(300)
            await trouble(launcher, f"{namespace}:{OWNERSHIP.name}", load)
            await load.more(300)
        await load.judge(afresh)
    # Each server that restarts later would open the remaining tables again.
    await drop_tables(url)
    return load
