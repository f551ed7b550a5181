"""Late pointers: consume pointers that wait for more finished messages, but not for long."""

import asyncio
from collections.abc import Callable

__all__ = ["LatePointers"]


class LatePointers:
    """Sends the consume pointers of all subscriptions of a client. One timer serves them all."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._waiting: dict[Callable[[], None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, send: Callable[[], None]) -> None:
        """Call `send` within `within_s` seconds, once. It must not raise."""
        self._waiting[send] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._within_s, self._send_all)

    def close(self) -> None:
        """Call nothing any more."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _send_all(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        for send in waiting:
            send()
