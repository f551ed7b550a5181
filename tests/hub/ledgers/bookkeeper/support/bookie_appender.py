"""A process that appends to ledgers on bookies.

    python -m tests.hub.ledgers.bookkeeper.support.bookie_appender ZOOKEEPER

It writes a line for each new ledger, and for the outcome of each entry, at once. So its reports survive a kill -9. It
ends after the first refused entry.
"""

import asyncio
import os
import sys

from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.support.contents import payload

__all__: list[str] = []

IN_FLIGHT = 64


def _report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def _append(store: BookkeeperLedgerStore) -> None:
    ledger = await store.create({"topic": b"killed"})
    _report("made", ledger)
    room = asyncio.Semaphore(IN_FLIGHT)
    over = asyncio.Event()

    def note(entry: int, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is None:
            _report("entry", entry)
        else:
            _report("failed", entry, type(error).__name__)
            over.set()
        room.release()

    entry = 0
    while not over.is_set():
        await room.acquire()
        future = store.start_append(ledger, entry, payload(ledger, entry, 60 + entry % 90))
        future.add_done_callback(lambda done, entry=entry: note(entry, done))  # type: ignore[misc]
        entry += 1
    for _ in range(IN_FLIGHT):
        await room.acquire()


async def _main(zookeeper: str) -> None:
    async with bookkeeper_store(zookeeper, BookkeeperOptions.for_hubs(b"appender")) as store:
        await _append(store)
    _report("end")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
