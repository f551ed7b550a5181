"""Ledger stores on real bookies of BookKeeper 4.17."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from tests.hub.ledgers.bookkeeper.support.sessions import session_with

__all__ = ["bookkeeper_store"]


@asynccontextmanager
async def bookkeeper_store(
    zookeeper: str, options: BookkeeperOptions, root: str = LEDGERS_ROOT
) -> AsyncIterator[BookkeeperLedgerStore]:
    """A store with a ZooKeeper session of its own. Both are closed at the end."""
    async with session_with(zookeeper) as session:
        store = await BookkeeperLedgerStore.open(session, root, options, SystemClock(), Random())
        try:
            yield store
        finally:
            await store.aclose()
