"""A process that uses a ledger store: `python -m tests.hub.ledgers.support.appender TASK DIRECTORY`.

It writes a line for each ledger made and each entry acknowledged, at once. So its reports survive a kill -9.
"""

import asyncio
import os
import resource
import sys
from pathlib import Path

from hedwig.errors import LedgerStoreFullError
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from tests.hub.ledgers.support.contents import payload

__all__: list[str] = []

OPTIONS = LocalLedgerOptions(segment_bytes=1 << 18, upkeep_interval_s=0.05, reserve_bytes=1 << 16)


def _report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _append(store: LocalLedgerStore, ledger: int, entries: range) -> None:
    async def one(entry: int) -> None:
        await store.append(ledger, entry, payload(ledger, entry, 60 + entry % 90))
        _report("entry", ledger, entry)

    await asyncio.gather(*(one(entry) for entry in entries))


async def append_at_full_speed(path: Path) -> None:
    """Append to many ledgers and delete some, until killed."""
    store = await LocalLedgerStore.open(path, OPTIONS)

    async def go() -> None:
        while True:
            ledger = await store.create()
            _report("made", ledger)
            for start in range(0, 200, 20):
                await _append(store, ledger, range(start, start + 20))
            if ledger % 3:
                _report("deleting", ledger)
                await store.delete(ledger)

    await asyncio.gather(*(go() for _ in range(8)))


async def fill_up(path: Path) -> None:
    """Append until the process may write no longer files, then raise that limit and continue."""
    store = await LocalLedgerStore.open(path, OPTIONS)
    ledger = await store.create()
    _report("made", ledger)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, hard))
    entry = refused = 0
    while refused < 3:
        try:
            await _append(store, ledger, range(entry, entry + 1))
            entry += 1
        except LedgerStoreFullError:
            refused += 1
            _report("full", entry)
            assert len(await store.read(ledger, 0, entries_max=100, bytes_max=1 << 20)) == min(100, entry)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await _append(store, ledger, range(entry, entry + 100))
    await store.aclose()


async def make_many(path: Path) -> None:
    """Make 100,000 ledgers of one entry; report memory and descriptors before, with all open, and after reopening."""

    def report() -> None:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        _report("resident", resident, len(list(Path("/proc/self/fd").iterdir())))

    report()
    store = await LocalLedgerStore.open(path)
    for _ in range(100):
        ledgers = await asyncio.gather(*(store.create() for _ in range(1000)))
        await asyncio.gather(*(store.append(ledger, 0, payload(ledger, 0)) for ledger in ledgers))
    report()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run({"append": append_at_full_speed, "fill": fill_up, "many": make_many}[sys.argv[1]](Path(sys.argv[2])))
