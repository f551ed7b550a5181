"""The driver without a hub: our ledger client alone, which appends what a hub would."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

from hedwig.benchmarks.load.load import Observer
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.clock import SystemClock
from hedwig.errors import HedwigError
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.zookeeper import Bridge, BridgeOptions

__all__ = ["LedgerTarget"]

_CREATING: Final = 100
_DEPLOYMENT: Final = b"benchmark"


class LedgerTarget:
    """Publishes are appends to one ledger for each topic. The ledgers are made before the load begins.

    bookies: `zookeeper`, `root`, `quorums` (three numbers), and `is_original`: whether the ledgers are those of 4.3.
    """

    def __init__(self, workload: Workload, bookies: Mapping[str, Any], *, share: int = 0, shares: int = 1) -> None:
        if list(workload.mix) != [Operation.PUBLISH] or workload.subscribers:
            raise ValueError("the ledger client only appends: give it publishes alone, without subscribers")
        if shares > 1:
            raise ValueError("a ledger has one writer: run the ledger client with --processes 1")
        self._topics = workload.topics
        self._bookies = bookies
        self._share = share
        self._payload = bytes(workload.message_bytes)
        self._stack = AsyncExitStack()
        self._ledgers: list[int] = []
        self._next_entry: list[int] = []

    async def open(self, observer: Observer) -> None:
        """Connect, and make the ledgers. Raises HedwigError - ZooKeeper or the bookies are not there."""
        self._observer = observer
        bookies = self._bookies
        bridge = Bridge(bookies["zookeeper"], BridgeOptions())
        self._stack.push_async_callback(bridge.close)
        await bridge.connect()
        ensemble, write, ack = bookies["quorums"]
        quorums = Quorums(ensemble=ensemble, write=write, ack=ack)
        if bookies["is_original"]:
            options = BookkeeperOptions.for_original_hub(quorums)
        else:
            options = BookkeeperOptions.for_hubs(_DEPLOYMENT, quorums)
        self._store = await BookkeeperLedgerStore.open(
            BridgedSession(bridge), bookies["root"], options, SystemClock(), Random()
        )
        self._stack.push_async_callback(self._store.aclose)
        room = asyncio.Semaphore(_CREATING)

        async def create() -> int:
            async with room:
                return await self._store.create()

        self._ledgers = list(await asyncio.gather(*(create() for _ in range(self._topics))))
        self._next_entry = [0] * self._topics

    def begin(self, number: int, operation: Operation, topic: int) -> None:  # noqa: ARG002 (it is always a publish)
        """Begin an append."""
        entry = self._next_entry[topic]
        self._next_entry[topic] = entry + 1
        appended = self._store.start_append(self._ledgers[topic], entry, self._payload)
        appended.add_done_callback(lambda done: self._done(number, done))

    def _done(self, number: int, appended: "asyncio.Future[None]") -> None:
        error = None if appended.cancelled() else appended.exception()
        if appended.cancelled():
            self._observer.answered(number, "cancelled")
        elif error is None:
            self._observer.answered(number, None)
        else:
            self._observer.answered(number, error.status.name if isinstance(error, HedwigError) else repr(error))

    async def close(self) -> None:
        """Disconnect; the ledgers stay."""
        await self._stack.aclose()
