"""Messages as znodes: how people did messaging with ZooKeeper alone, as a baseline for hubs.

Each subscriber of a topic has a queue, a znode. A publisher creates a sequential znode with the message in every queue
of the topic. It does so in one transaction, so that every subscriber gets the message or none does.

A subscriber reads the names in its queue, which leaves a watch. It takes the messages in order, and deletes them in one
transaction. With that it asks for the names again, and waits for the watch only when there are none.

There is no hub and no cursor, and a subscription without a consumer is not cheap. A message that no consumer takes
stays in ZooKeeper's memory, once for every subscriber.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from hedwig.benchmarks.drivers.hub.raw_frames import MARK, NUMBER
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.arrivals import Arrivals
from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation, Workload, subscriber_name, topic_name
from hedwig.clock import Deadline
from hedwig.errors import HedwigError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.session import connect
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request, children, get, refusal_of, transaction

__all__ = ["ZnodeMessages"]

_MESSAGE: Final = "message-"
_TAKEN_MAX: Final = 500
"""Messages of one transaction at most: ZooKeeper accepts 1 MB in a request. A subscriber need not wait for more."""
_FAILURES: Final = (NotAppliedError, OutcomeUnknownError, AbortedError, HedwigError, BenchmarkError)


class ZnodeMessages:
    """A Target over ZooKeeper: `connections` sessions publish, and each subscriber number has one to receive."""

    def __init__(self, workload: Workload, host: str, port: int, *, share: int = 0, shares: int = 1) -> None:
        if shares > 1 or share:
            raise ValueError(
                "a workload with subscribers runs in one process, which counts its messages: use --processes 1"
            )
        self._workload = workload
        self._hosts = f"{host}:{port}"
        self._options = StoreOptions(in_flight_max=max(workload.in_flight, workload.topics * 2))
        # Queues of an earlier run may still hold messages.
        self._root = f"/{workload.prefix}-{time.time_ns():x}"
        self._filling = bytes(workload.message_bytes - len(MARK) - NUMBER.size)
        self._arrivals = Arrivals()
        self._senders: list[Bridge] = []
        self._receivers: list[Bridge] = []
        self._receiving: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def open(self, observer: Observer) -> None:
        """Connect, make the queues, and watch them. Raises HedwigError - ZooKeeper is not there, or refuses."""
        self._observer = observer
        workload = self._workload
        for bridges, count in ((self._senders, workload.connections), (self._receivers, workload.subscribers)):
            for _ in range(count):
                bridges.append(await connect(self._hosts, self._options))
        first = self._senders[0]
        await self._make(first, [self._root])
        watched = []
        for topic in range(workload.topics):
            nodes = [self._topic(topic), *(self._queue(topic, each) for each in range(workload.subscribers))]
            await self._make(first, nodes)
            for subscriber, bridge in enumerate(self._receivers):
                is_watched = asyncio.Event()
                watched.append(is_watched)
                self._receiving.append(asyncio.create_task(self._receive(bridge, topic, subscriber, is_watched)))
        for is_watched in watched:
            await is_watched.wait()

    def begin(self, number: int, operation: Operation, topic: int) -> None:  # noqa: ARG002 (there is but one)
        """Begin an operation."""
        # A session's requests take effect in the order in which they are made. These tasks begin in the same order.
        task = asyncio.create_task(self._publish(number, topic))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Disconnect."""
        waiting = [*self._receiving, *self._running]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for bridge in (*self._senders, *self._receivers):
            await bridge.close()

    def _topic(self, topic: int) -> str:
        return f"{self._root}/{topic_name(self._workload.prefix, topic).decode()}"

    def _queue(self, topic: int, subscriber: int) -> str:
        return f"{self._topic(topic)}/{subscriber_name(subscriber).decode()}"

    # -------------------------------------------------------------------------------------------------- publishing

    async def _publish(self, number: int, topic: int) -> None:
        body = b"".join((MARK, NUMBER.pack(number), self._filling))
        queues = [self._queue(topic, each) for each in range(self._workload.subscribers)]

        def fill(operations: Any) -> None:
            for queue in queues:
                operations.create(f"{queue}/{_MESSAGE}", body, sequence=True)

        try:
            await self._commit(self._senders[topic % len(self._senders)], fill)
        except _FAILURES as exc:
            self._observer.answered(number, type(exc).__name__)
        else:
            self._observer.answered(number, None)

    # --------------------------------------------------------------------------------------------------- receiving

    async def _receive(self, bridge: Bridge, topic: int, subscriber: int, is_watched: asyncio.Event) -> None:
        """Take messages out of a queue as they come. A failure ends the load: no message would be taken any more."""
        queue, loop, changed = self._queue(topic, subscriber), asyncio.get_running_loop(), asyncio.Event()

        def watch(_: Any) -> None:
            loop.call_soon_threadsafe(changed.set)  # Kazoo calls from a thread of its own.

        try:
            (names,) = await self._send(bridge, children(queue, watch))
            is_watched.set()
            while True:
                while names:
                    taken = sorted(names)[:_TAKEN_MAX]
                    paths = [f"{queue}/{name}" for name in taken]
                    znodes = await self._send(bridge, *(get(path) for path in paths))
                    for body, _ in znodes:
                        self._arrived(topic, subscriber, NUMBER.unpack_from(body, len(MARK))[0])
                    changed.clear()
                    # The names that come back are those after the deletion, which was requested first.
                    deleted, names = await self._send(bridge, _delete_all(paths), children(queue, watch))
                    _check(deleted)
                await changed.wait()
                changed.clear()
                (names,) = await self._send(bridge, children(queue, watch))
        except _FAILURES:
            is_watched.set()
            self._observer.lost()

    def _arrived(self, topic: int, subscriber: int, number: int) -> None:
        if not self._arrivals.is_next(topic, subscriber, number):
            self._observer.answered(number, "out of order")
        self._observer.delivered(number)

    # ----------------------------------------------------------------------------------------------------- requests

    async def _make(self, bridge: Bridge, nodes: Sequence[str]) -> None:
        def fill(operations: Any) -> None:
            for node in nodes:
                operations.create(node)

        await self._commit(bridge, fill)

    async def _commit(self, bridge: Bridge, fill: Callable[[Any], object]) -> None:
        (results,) = await self._send(bridge, transaction(fill))
        _check(results)

    async def _send(self, bridge: Bridge, *requests: Request) -> list[Any]:
        """Return the results of requests. Raises BenchmarkError - one was refused; and as Bridge does."""
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        results = await bridge.send(deadline, *requests)
        for result in results:
            if isinstance(result, Exception):
                raise BenchmarkError(f"ZooKeeper refused a request: {type(result).__name__}")
        return results


def _delete_all(paths: list[str]) -> Request:
    def fill(operations: Any) -> None:
        for path in paths:
            operations.delete(path)

    return transaction(fill)


def _check(results: Any) -> None:
    if (error := refusal_of(results)) is not None:
        raise BenchmarkError(f"ZooKeeper refused a transaction: {type(error).__name__}")
