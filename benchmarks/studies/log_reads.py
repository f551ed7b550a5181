"""Measure how subscribers that are behind read from bookies, out of a shared log and out of ledgers of topics.

    python -m hedwig.benchmarks.studies.log_reads [--topics 10000] [--messages 10] [--sizes 100 1024]

For each size, the study starts a ZooKeeper and three bookies in a folder below --dir, and removes them. It appends
messages to all topics in random order. Then another store, whose memory is empty, reads the topics: at first one of
them, then all at once, each as a cursor does. Ledgers of topics are read as many at once as `reads_max` lets a hub do.

Each line is one measurement. Entries are what the bookies were asked for, footers included.
"""

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Final

import uvloop

from hedwig.cli.dev import DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import SystemClock
from hedwig.hub.ledgers import LedgerStore
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.options.options import HubOptions
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.model import HubInfo
from hedwig.zookeeper import Bridge, BridgeOptions

__all__ = ["main"]

_BOOKIES: Final = 3
_BOTH_COMPILERS: Final = "-XX:TieredStopAtLevel=4"
_APPENDS_AT_ONCE: Final = 5000
_CREATES_AT_ONCE: Final = 64
_HUB: Final = HubOptions()


def main() -> None:
    """Parse the arguments, start the servers, measure, and print."""
    parser = argparse.ArgumentParser(description="Measure reads of subscribers that are behind.")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure")
    parser.add_argument("--topics", type=int, default=10_000, help="topics with a subscriber that is behind")
    parser.add_argument("--messages", type=int, default=10, help="messages of each topic")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 1024], help="bytes of a message")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hedwig-bookies-", dir=arguments.dir))
    try:
        for size in arguments.sizes:
            # A bookie has a file for each ledger, and may open some 20,000.
            _measure_on_new_bookies(folder / str(size), arguments.topics, arguments.messages, size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_on_new_bookies(folder: Path, topics: int, messages: int, size: int) -> None:
    servers = DevServers(
        folder,
        progress=lambda line: print(line, flush=True),
        heap_mb={"bookie": 1024},
        java_flags={"bookie": _BOTH_COMPILERS},
    )
    try:
        servers.up(["bookkeeper"], bookies=_BOOKIES)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_measure(servers.address("zookeeper"), topics, messages, size))
    finally:
        servers.down()


class _CountedStore(BookkeeperLedgerStore):
    """Counts the entries that it reads."""

    entries = 0
    size = 0

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        payloads = await super().read(ledger_id, first_entry_id, entries_max=entries_max, bytes_max=bytes_max)
        self.entries += len(payloads)
        self.size += sum(map(len, payloads))
        return payloads


class _Bookies:
    """Opens stores on the same bookies, as hubs do one after the other."""

    def __init__(self, zookeeper: str, metadata: MetadataStore, *, is_shared: bool) -> None:
        self._zookeeper = zookeeper
        self._records = KeptLogRecords(metadata.named_records, metadata.write_gate)
        self._is_shared = is_shared

    @asynccontextmanager
    async def store(self) -> AsyncIterator[tuple[LedgerStore, _CountedStore]]:
        """Open a store, and the store below it, which counts."""
        bridge = Bridge(self._zookeeper, BridgeOptions())
        try:
            await bridge.connect()
            session, clock = BridgedSession(bridge), SystemClock()
            below = await _CountedStore.open(
                session, LEDGERS_ROOT, BookkeeperOptions.for_hubs(b"benchmark"), clock, Random()
            )
            store: LedgerStore = below
            if self._is_shared:
                hub, options = HubInfo(host="benchmark", port=1), SharedLogOptions()
                store = await SharedLedgerStore.open(below, self._records, hub, clock, options, is_alive=_is_alive)
            try:
                yield store, below
            finally:
                await store.aclose()
        finally:
            await bridge.close()


async def _is_alive(_: HubInfo) -> bool:
    return True


async def _measure(zookeeper: str, topics: int, messages: int, size: int) -> None:
    async with await open_metadata("sqlite://") as metadata:
        for is_shared in (False, True):
            bookies = _Bookies(zookeeper, metadata, is_shared=is_shared)
            ledgers = await _fill(bookies, topics, messages, size)
            for read in (ledgers[:1], Random(1).sample(ledgers, topics)):
                async with bookies.store() as (store, below):
                    kind = "shared log       " if is_shared else "ledgers of topics"
                    await _read(f"{kind} {size:>5} bytes", store, below, read, messages, size)


async def _fill(bookies: _Bookies, topics: int, messages: int, size: int) -> list[int]:
    """Return ledgers, one a topic, whose messages were appended in random order."""
    async with bookies.store() as (store, _):
        ledgers: list[int] = []
        while len(ledgers) < topics:
            count = min(_CREATES_AT_ONCE, topics - len(ledgers))
            ledgers += await asyncio.gather(*(store.create({"topic": b"benchmark"}) for _ in range(count)))
        order = [ledger for ledger in ledgers for _ in range(messages)]
        Random(0).shuffle(order)
        payload, following = os.urandom(size), dict.fromkeys(ledgers, 0)
        for start in range(0, len(order), _APPENDS_AT_ONCE):
            appends = []
            for ledger in order[start : start + _APPENDS_AT_ONCE]:
                appends.append(store.start_append(ledger, following[ledger], payload))
                following[ledger] += 1
            await asyncio.gather(*appends)
        for start in range(0, topics, _CREATES_AT_ONCE):
            await asyncio.gather(*map(store.close, ledgers[start : start + _CREATES_AT_ONCE]))
        await store.settle(ledgers)
        return ledgers


async def _read(
    what: str, store: LedgerStore, below: _CountedStore, ledgers: Sequence[int], messages: int, size: int
) -> None:
    turns = asyncio.Semaphore(_HUB.reads_max) if store is below else None

    async def behind(ledger: int) -> None:
        entry = 0
        while entry < messages:
            async with turns or nullcontext():
                payloads = await store.read(
                    ledger, entry, entries_max=_HUB.read_messages_max, bytes_max=_HUB.channel_unsent_bytes
                )
            entry += len(payloads)

    began, used = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for ledger in ledgers:
            group.create_task(behind(ledger))
    took, used = time.perf_counter() - began, time.process_time() - used
    count = len(ledgers) * messages
    print(
        f"{what}, {len(ledgers):>6,} topics: {count / took:>7,.0f} messages/s  {below.entries / count:.3f} entries "
        f"a message  {below.size / count / size:>6.2f} bytes a byte  {used / count * 1e6:.0f} µs of processor each",
        flush=True,
    )


if __name__ == "__main__":
    main()
