"""The right to serve that a session gives, counted by this hub's own clock.

ZooKeeper lets a session expire when it has not heard of it for the session timeout. It heard of it at the earliest when
a request that was answered had been sent; so much later, less a margin, this hub stops by itself, whatever it could ask
or could not. The margin of a third is for what is between a server and its leader: a follower answers a request, and
passes on that the session lives within half a tick only; if it is lost in between, the leader counts from the request
before. A session lasts two ticks at least, so that is a quarter of it; the rest is for answers on their way.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["Lease"]

_MARGIN_SHARE: Final = 1 / 3


class Lease:
    """Proven from its first confirmation until the last one has run out; then it is over for good.

    `on_end` is called once, as soon as anybody finds that it is over.
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
        """Say whether the session surely lives; one look at the clock."""
        if self._now_s() < self._until_s and not self._is_over:
            return True
        self.end()
        return False

    def confirm(self, sent_at_s: float, session_s: float) -> None:
        """Note that a request sent at that time was answered. Changes nothing once the lease is over."""
        if self.is_proven():
            self._until_s = _end(sent_at_s, session_s)

    def end(self) -> None:
        """End it now."""
        if not self._is_over:
            self._is_over = True
            self._on_end()

    def remaining_s(self) -> float:
        """Return the seconds left, never below zero."""
        return 0.0 if self._is_over else max(0.0, self._until_s - self._now_s())


def _end(sent_at_s: float, session_s: float) -> float:
    return sent_at_s + session_s * (1 - _MARGIN_SHARE)
