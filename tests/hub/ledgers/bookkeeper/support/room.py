"""Bookies, ledger metadata and clients of one test, all in memory and in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Final

from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerMetadata
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from tests.hub.ledgers.bookkeeper.support.model import ModelBookies, ModelMetadata, View
from tests.support.virtual_time import VirtualTime

__all__ = ["BOTH", "STRIPES", "TWO_OF_THREE", "Room", "outcome", "run", "until"]

TWO_OF_THREE: Final = Quorums(ensemble=3, write=3, ack=2)
BOTH: Final = Quorums(ensemble=2, write=2, ack=2)
STRIPES: Final = Quorums(ensemble=3, write=2, ack=2)

_DEADLINE_S: Final = 60
"""In virtual time."""


class Room:
    """A number of bookies, and a store of ledgers on them. `options` are those of `BookkeeperOptions`."""

    def __init__(self, bookies: int, quorums: Quorums, **options: Any) -> None:
        self.random = Random(7)
        self.model = ModelBookies([f"b{number}" for number in range(bookies)], self.random)
        self.metadata = ModelMetadata(self.random)
        self.options = BookkeeperOptions(quorums=quorums, digest=DigestKind.CRC32, password=b"pw", **options)
        self.store = self.client()

    def client(self) -> BookkeeperLedgerStore:
        """Return another store on the same bookies, with the options that are set now."""
        return BookkeeperLedgerStore(self.cluster(), self.options)

    def cluster(self) -> BookieCluster:
        view = View(self.model)
        return BookieCluster(view, view, self.metadata, self.options.cluster, self.random)

    def record(self, ledger_id: int) -> LedgerMetadata:
        return self.metadata.current(ledger_id)

    def members(self, ledger_id: int) -> tuple[str, ...]:
        """Return the bookies of the ledger's last ensemble."""
        return self.record(ledger_id).last_ensemble.bookies

    def spare(self, ledger_id: int) -> str:
        """Return a bookie that is not in the ledger's last ensemble."""
        return next(name for name in self.model.bookies if name not in self.members(ledger_id))

    async def filled(self, entries: int) -> int:
        """Return a new ledger with `entries` entries; the text of each is "entry N"."""
        ledger_id = await self.store.create()
        for entry_id in range(entries):
            await self.store.append(ledger_id, entry_id, b"entry %d" % entry_id)
        return ledger_id


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in virtual time."""
    VirtualTime().run(work())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition. Raises TimeoutError after a minute of virtual time."""
    async with asyncio.timeout(_DEADLINE_S):
        while not condition():  # noqa: ASYNC110 (time is virtual, and the model has no events)
            await asyncio.sleep(0.01)


async def outcome(future: Awaitable[object]) -> str:
    """Return "done", or the name of the error that ended it."""
    try:
        await future
    except Exception as exc:
        return type(exc).__name__
    return "done"
