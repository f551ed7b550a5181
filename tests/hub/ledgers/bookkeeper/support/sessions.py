"""A session with a real ZooKeeper for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession
from hedwig.store_access import StoreAccess
from hedwig.zookeeper import Bridge, BridgeOptions

__all__ = ["session_with"]


@asynccontextmanager
async def session_with(address: str, stores_file: str = "") -> AsyncIterator[BridgedSession]:
    """Open a session with the ZooKeeper at `address`, and close it at the end."""
    bridge = Bridge(address, BridgeOptions(access=StoreAccess.read(stores_file).zookeeper))
    try:
        await bridge.connect()
        yield BridgedSession(bridge)
    finally:
        await bridge.close()
