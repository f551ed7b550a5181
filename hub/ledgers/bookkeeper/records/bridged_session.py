"""The session that the ledgers ask for, on the bridge that everybody has."""

from typing import Any

from hedwig.clock import Deadline
from hedwig.errors import LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.bookkeeper.records.zookeeper import Request
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge

__all__ = ["BridgedSession"]


class BridgedSession:
    """A Session that tells the bridge's outcomes in the ledgers' words. Whoever made the bridge closes it."""

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
