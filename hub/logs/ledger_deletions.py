"""Deleting ledgers that no range record names any more, until that is done.

Nobody else would do it: the topic may belong to another hub by now, whose record does not know them. An id is never
given twice, so a deletion may be repeated.
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
"""How long a hub that stops goes on deleting."""


class LedgerDeletions:
    """Deletes ledgers at once where it can, and else again and again, with pauses, for as long as the hub lives.

    At most 10,000 wait. The others are left to `metadata repair`: `left` counts them, and the log says so once until
    none waits any more.
    """

    def __init__(self, clock: Clock, timeout_s: float, ledgers: LedgerStore | None = None) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._ledgers = ledgers
        self._waiting: dict[int, int | None] = {}
        """In the order in which they are tried; of those that may be another's the token by which ours was made."""
        self._tasks = Tasks()
        self._is_trying = False
        self._has_told = False
        """Whether it was logged that too many wait."""
        self.left = 0

    def attach(self, ledgers: LedgerStore) -> None:
        """Say through which store ledgers are deleted from now on."""
        self._ledgers = ledgers

    @property
    def waiting(self) -> int:
        """How many ledgers are to be deleted yet."""
        return len(self._waiting)

    async def delete(self, ledger_ids: Iterable[int]) -> None:
        """Delete these ledgers; return once each was tried, or the store failed. May be cancelled: that goes on."""
        wanted = [ledger_id for ledger_id in ledger_ids if self._keep(ledger_id)]
        try:
            for ledger_id in wanted:
                if not await self._try(ledger_id):
                    break
        finally:
            if not self._waiting.keys().isdisjoint(wanted):
                self._go_on()

    def begin(self, ledger_ids: Iterable[int]) -> None:
        """Begin to delete these ledgers, after a pause."""
        for ledger_id in ledger_ids:
            self._keep(ledger_id)
        self._go_on()

    def undo(self, ledger_id: int, token: int) -> None:
        """Delete a ledger that the store may have made; after a pause, since it did not answer just now."""
        if self._keep(ledger_id, token):
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_trying:
            self._is_trying = True
            self._tasks.start(self._try_again())

    def _keep(self, ledger_id: int, token: int | None = None) -> bool:
        """Remember a ledger until it is deleted; return False if there is no room for it."""
        if len(self._waiting) >= _WAITING_MAX:
            self.left += 1
            if not self._has_told:
                self._has_told = True
                _log.error(
                    "%d ledgers wait for being deleted; others, from ledger %d on, are left to metadata repair",
                    len(self._waiting),
                    ledger_id,
                )
            return False
        self._waiting[ledger_id] = token
        return True

    async def _try(self, ledger_id: int) -> bool:
        """Delete a ledger; return whether that is done. One that fails is tried again behind all others."""
        assert self._ledgers is not None
        token = self._waiting.get(ledger_id)
        try:
            async with asyncio.timeout(self._timeout_s):
                await (self._ledgers.delete(ledger_id) if token is None else self._ledgers.undo(ledger_id, token))
        except Exception as exc:  # Also one that nobody foresaw: what is not deleted stays for ever.
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
            self._has_told = False
        finally:
            self._is_trying = False

    async def close(self) -> None:
        """Try no more, but for a moment: a pass of retention that the end of its hub cancels leaves ledgers behind."""
        await self._tasks.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                for ledger_id in list(self._waiting):
                    if not await self._try(ledger_id):
                        break
        if self._waiting:
            _log.warning("%d ledgers that could not be deleted are left to metadata repair", len(self._waiting))
