"""Records through happybase and the Thrift1 gateway, whose conditional put writes one cell.

So the version and both parts share the compared cell, and there is no partial update. The library blocks, so each
operation in flight needs a thread with a connection. There are as many as the Thrift2 driver has; more operations wait.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import happybase
from happybase import Connection
from happybase.batch import Mutation

from hedwig.benchmarks.drivers.records.record_clients import PARTS, SUBSCRIBER
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.clock import SystemClock
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.hbase.schema import columns_of
from hedwig.metadata.records.stamps import STAMP_BYTES, Stamp, make_token

__all__ = ["HappybaseRecords"]

T = TypeVar("T")

_CONNECTIONS: Final = 16
_TIMEOUT_MS: Final = 30_000
_COLUMN: Final = columns_of(SUBSCRIPTIONS).version
_CONTENT: Final = b"".join(PARTS)


class HappybaseRecords:
    """A RecordClient with one connection for each thread. A version is the content of the cell."""

    def __init__(self, address: str, table: str) -> None:
        host, _, port = address.rpartition(":")
        self._endpoint = (host, int(port))
        self._table = table.encode()
        self._options = StoreOptions()
        self._clock = SystemClock()
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="happybase")
        self._own = threading.local()
        self._connections: list[Connection] = []
        self._loop = asyncio.get_running_loop()

    def key(self, topic: bytes) -> bytes:
        return topic_key(topic) + SUBSCRIBER

    async def read(self, key: bytes) -> bytes | None:
        return await self._run(lambda connection: self._look(connection, key))

    async def create(self, key: bytes) -> bytes | None:
        value = Stamp.first(self._clock, make_token(self._options.random)).encode() + _CONTENT
        done = await self._run(lambda connection: self._put(connection, key, None, value))
        return value if done else None

    async def update(self, key: bytes, version: bytes, *, part: bool) -> tuple[bool, bytes | None]:
        if part:
            raise BenchmarkError("happybase has no partial update: its condition and its write share one cell")
        stamp = Stamp.decode(version[:STAMP_BYTES]).next(make_token(self._options.random))
        value = stamp.encode() + _CONTENT

        def work(connection: Connection) -> tuple[bool, bytes | None]:
            if self._put(connection, key, version, value):
                return True, value
            return False, self._look(connection, key)

        return await self._run(work)

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._connections:
            connection.close()

    async def _run(self, work: Callable[[Connection], T]) -> T:
        return await self._loop.run_in_executor(self._threads, lambda: work(self._connection()))

    def _connection(self) -> Connection:
        """Return the connection of this thread."""
        if not hasattr(self._own, "connection"):
            host, port = self._endpoint
            self._own.connection = happybase.Connection(host, port, timeout=_TIMEOUT_MS)
            self._connections.append(self._own.connection)
        return self._own.connection

    def _look(self, connection: Connection, row: bytes) -> bytes | None:
        stored: bytes | None = connection.table(self._table).row(row, [_COLUMN]).get(_COLUMN)
        return stored

    def _put(self, connection: Connection, row: bytes, expected: bytes | None, value: bytes) -> bool:
        mutation = Mutation(column=_COLUMN, value=value)
        done: bool = connection.client.checkAndPut(self._table, row, _COLUMN, expected, mutation, {})
        return done
