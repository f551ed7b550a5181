"""The session that the ledgers ask for, on the bridge that the metadata have."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hedwig.clock import Deadline
from hedwig.errors import LedgerStoreUnavailableError, LedgerWriteError
from hub.ledgers.bookkeeper.zookeeper import Request
from metadata.attempts import AbortedError, NotAppliedError, OutcomeUnknownError
from metadata.backend import StoreOptions
from metadata.zookeeper.bridge import Bridge

__all__ = ["BridgedSession", "session_with"]


class BridgedSession:
    """Tells the bridge's outcomes in the ledgers' words."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        try:
            return await self._bridge.send(deadline, *requests)
        except NotAppliedError as exc:
            raise LedgerStoreUnavailableError(str(exc)) from exc
        except OutcomeUnknownError as exc:
            raise LedgerWriteError(str(exc)) from exc
        except AbortedError as exc:
            raise (LedgerWriteError if exc.sent else LedgerStoreUnavailableError)(str(exc)) from exc


@asynccontextmanager
async def session_with(address: str) -> AsyncIterator[BridgedSession]:
    """A session with the ZooKeeper at `address`, closed at the end."""
    bridge = Bridge(address, StoreOptions())
    try:
        await bridge.connect()
        yield BridgedSession(bridge)
    finally:
        await bridge.close()
