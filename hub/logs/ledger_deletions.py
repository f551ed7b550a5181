"""Deletes ledgers that no range record names any more, and retries until it succeeds.

No other hub would delete them: the topic may have another owner by now, and the record no longer names them. A ledger
id is never reused, so a deletion may be repeated.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from hedwig.clock import Clock
from hedwig.concurrency.tasks import Tasks
from hedwig.hub.ledgers import LedgerStore

__all__ = ["LedgerDeletions"]

_log = logging.getLogger(__name__)

_WAITING_MAX: Final = 10_000
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0
_CLOSE_S: Final = 1.0
"""How long a closing hub goes on deleting."""


class LedgerDeletions:
    """Deletes ledgers at once if possible; else it retries with pauses for as long as the hub lives.

    At most 10,000 wait. The others are left to `metadata repair`. `left` counts them, and the hub logs this once until
    none waits any more.
    """

    def __init__(self, clock: Clock, timeout_s: float, ledgers: LedgerStore | None = None) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._ledgers = ledgers
        self._waiting: dict[int, int | None] = {}
        """The ledgers in the order of the tries, each with its token.

        The token is set if another hub may have made the ledger of this id: it is the token of this hub's create.
        """
        self._tasks = Tasks()
        self._is_trying = False
        self._has_logged = False
        """Whether the hub has logged that too many wait."""
        self.left = 0

    def attach(self, ledgers: LedgerStore) -> None:
        """Set the store through which ledgers are deleted from now on."""
        self._ledgers = ledgers

    @property
    def waiting(self) -> int:
        """How many ledgers wait to be deleted."""
        return len(self._waiting)

    async def delete(self, ledger_ids: Iterable[int]) -> None:
        """Delete these ledgers; return once each was tried, or the store failed.

        If the call is cancelled, the deletion goes on.
        """
        wanted = [ledger_id for ledger_id in ledger_ids if self._keep(ledger_id)]
        try:
            for ledger_id in wanted:
                if not await self._try(ledger_id):
                    break
        finally:
            if not self._waiting.keys().isdisjoint(wanted):
                self._go_on()

    def begin(self, ledger_ids: Iterable[int]) -> None:
        """Start to delete these ledgers, after a pause."""
        for ledger_id in ledger_ids:
            self._keep(ledger_id)
        self._go_on()

    def undo(self, ledger_id: int, token: int) -> None:
        """Delete a ledger that the store may have made, after a pause, because the store did not answer just now."""
        if self._keep(ledger_id, token):
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_trying:
            self._is_trying = True
            self._tasks.start(self._try_again())

    def _keep(self, ledger_id: int, token: int | None = None) -> bool:
        """Queue a ledger until it is deleted; return False if there is no room for it."""
        if len(self._waiting) >= _WAITING_MAX:
            self.left += 1
            if not self._has_logged:
                self._has_logged = True
                _log.error(
                    "%d ledgers wait to be deleted; later ones, from ledger %d on, are left to metadata repair",
                    len(self._waiting),
                    ledger_id,
                )
            return False
        self._waiting[ledger_id] = token
        return True

    async def _try(self, ledger_id: int) -> bool:
        """Delete a ledger; return whether that succeeded. If not, it is tried again after all others."""
        assert self._ledgers is not None
        token = self._waiting.get(ledger_id)
        try:
            async with asyncio.timeout(self._timeout_s):
                await (self._ledgers.delete(ledger_id) if token is None else self._ledgers.undo(ledger_id, token))
        except Exception as exc:  # Any exception: a ledger that is not deleted stays for ever.
            self._waiting.pop(ledger_id, None)
            self._waiting[ledger_id] = token
            _log.warning("ledger %d is not deleted yet, one of %d: %r", ledger_id, len(self._waiting), exc)
            return False
        self._waiting.pop(ledger_id, None)
        return True

    async def _try_again(self) -> None:
        pause_s = _PAUSE_FIRST_S
        try:
            while self._waiting:
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
                for ledger_id in list(self._waiting):
                    if not await self._try(ledger_id):
                        break
                    pause_s = _PAUSE_FIRST_S
            self._has_logged = False
        finally:
            self._is_trying = False

    async def close(self) -> None:
        """Try the waiting ledgers once more for at most `_CLOSE_S`, then stop.

        A retention pass that the end of the hub cancels leaves such ledgers behind.
        """
        await self._tasks.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                for ledger_id in list(self._waiting):
                    if not await self._try(ledger_id):
                        break
        if self._waiting:
            _log.warning("%d ledgers that could not be deleted are left to metadata repair", len(self._waiting))
