"""When a writer tells bookies its last add confirmed, for clients that read the ledger meanwhile."""

import asyncio
from collections.abc import Callable

__all__ = ["LacTeller"]


class LacTeller:
    """Calls `tell` with the last add confirmed once it has not changed for `after_s`; never if that is 0."""

    def __init__(self, after_s: float, tell: Callable[[int], None], lac: int) -> None:
        self._after_s = after_s
        self._tell = tell
        self._lac = self._sent = lac
        self._timer: asyncio.TimerHandle | None = None

    def hear(self, lac: int) -> None:
        """Record a new last add confirmed. More may follow soon, so this starts a timer."""
        self._lac = lac
        if self._after_s and self._timer is None and lac > self._sent:
            self._wait()

    def end(self) -> None:
        """Stop calling `tell`."""
        self._after_s = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._look, self._lac)

    def _look(self, seen: int) -> None:
        self._timer = None
        if self._lac != seen:
            # New entries come, and they carry it too.
            self._wait()
            return
        self._sent = seen
        self._tell(seen)
