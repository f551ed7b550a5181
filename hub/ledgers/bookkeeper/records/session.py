"""The ZooKeeper session that the ledger code needs, and the one that it gets, on the shared bridge."""

from typing import Any, Protocol

from hedwig.clock import Deadline
from hedwig.errors import LedgerStoreUnavailableError, LedgerWriteError
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError
from hedwig.zookeeper import Bridge, Request

__all__ = ["BridgedSession", "Session"]


class Session(Protocol):
    """A session with ZooKeeper that survives its connections; many requests may be in flight."""

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        """Submit requests back to back, and return their results in order; an error answer is its exception.

        Raises: LedgerStoreUnavailableError - never submitted; LedgerWriteError - submitted, and one was not answered.
        """
        ...


class BridgedSession:
    """A Session that turns the bridge's errors into those of ledgers. The maker of the bridge closes the bridge."""

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
