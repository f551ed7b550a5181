"""The right to serve that a session gives, counted by this hub's own clock.

ZooKeeper ends a session that it has not heard of for the session timeout. It cannot have received an answered request
before the hub sent it. So the hub stops by itself one timeout after it sent that request, less a margin of a third. It
needs no message for that.

The margin is for the way between a server and its leader. A follower answers a request, but tells the leader only
within half a tick that the session is alive. If the follower fails before that, the leader counts from the request
before. A session lasts at least two ticks, so this takes at most a quarter of it. The rest is for answers on their way.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["Lease"]

_MARGIN_SHARE: Final = 1 / 3


class Lease:
    """Proven from its first confirmation until the last one has run out. Then it is over for good.

    `on_end` is called once, as soon as a check finds that it is over.
    """

    __slots__ = ("_is_over", "_now_s", "_on_end", "_until_s")

    def __init__(
        self, now_s: Callable[[], float], sent_at_s: float, session_s: float, on_end: Callable[[], None]
    ) -> None:
        self._now_s = now_s
        self._on_end = on_end
        self._is_over = False
        self._until_s = _end(sent_at_s, session_s)

    def is_proven(self) -> bool:
        """Say whether the session is surely alive. It costs one read of the clock."""
        if self._now_s() < self._until_s and not self._is_over:
            return True
        self.end()
        return False

    def confirm(self, sent_at_s: float, session_s: float) -> None:
        """Record that a request sent at `sent_at_s` was answered. This changes nothing once the lease is over."""
        if self.is_proven():
            self._until_s = _end(sent_at_s, session_s)

    def end(self) -> None:
        """End the lease now."""
        if not self._is_over:
            self._is_over = True
            self._on_end()

    def remaining_s(self) -> float:
        """Return the seconds left, never below zero."""
        return 0.0 if self._is_over else max(0.0, self._until_s - self._now_s())


def _end(sent_at_s: float, session_s: float) -> float:
    return sent_at_s + session_s * (1 - _MARGIN_SHARE)
