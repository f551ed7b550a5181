"""A pool of threads, each with a gateway connection of its own.

The gateway answers the calls of one connection one at a time, so throughput comes from several connections. Measured
against one region server, 16 connections do three times the work of one.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from hedwig.clock import Deadline
from hedwig.concurrency.jobs import Job, JobQueue, NotBegunError, QueueClosedError, UnfinishedError
from hedwig.metadata.hbase.thrift2.connection import ThriftConnection
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError

__all__ = ["ConnectionPool"]

T = TypeVar("T")


class ConnectionPool:
    """Runs blocking calls for asyncio callers, as many at once as there are connections."""

    def __init__(self, make: Callable[[], ThriftConnection], *, connections: int, waiting_max: int) -> None:
        self._queue: JobQueue[ThriftConnection] = JobQueue(waiting_max)
        self._connections = [make() for _ in range(connections)]
        self._threads = [
            threading.Thread(target=self._serve, args=(connection,), name=f"hedwig-thrift2-{number}", daemon=True)
            for number, connection in enumerate(self._connections)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[ThriftConnection], T], deadline: Deadline) -> T:
        """Return what `work` returns, called in a thread with a connection.

        Raises: what `work` raises; NotAppliedError - the work did not begin; AbortedError - the pool was closed;
            OutcomeUnknownError - the work did not end before the deadline, and still runs.
        """
        try:
            return await self._queue.run(work, deadline)
        except QueueClosedError as exc:
            raise AbortedError(str(exc), sent=False) from exc
        except NotBegunError as exc:
            raise NotAppliedError(f"the gateway at {self._connections[0].address}: {exc}") from exc
        except UnfinishedError as exc:
            raise OutcomeUnknownError(f"the gateway at {self._connections[0].address}: {exc}") from exc

    async def close(self) -> None:
        """Close all connections and end the threads; calls under way are interrupted. May be called twice."""
        self._queue.close()
        for connection in self._connections:
            connection.interrupt()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _serve(self, connection: ThriftConnection) -> None:
        while self._queue.wait():
            self._serve_one(connection)
        connection.close()

    def _serve_one(self, connection: ThriftConnection) -> None:
        # This is a function of its own so that a waiting thread does not keep the last answer in memory.
        for job in self._queue.take(1):
            self._carry_out(job, connection)

    def _carry_out(self, job: Job[ThriftConnection], connection: ThriftConnection) -> None:
        try:
            job.result = job.work(connection)
        except BaseException as exc:
            job.error = exc
        self._queue.answer((job,))
