"""What a client has done and does now: counters for applications, and the log of its changes of state."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

__all__ = ["Activity", "ClientCounters", "Troubles"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCounters:
    """The counters of a client. Those "at this moment" go up and down, the others only grow."""

    published: int
    """Messages that hubs have stored."""
    publish_errors: int
    """Publishes that ended with an error. Those whose caller was cancelled do not count."""
    publish_repeats: int
    """Attempts to publish a message, beyond the first of each."""
    publishes_in_flight: int
    """Messages without an outcome, at this moment."""
    late_topics: int
    """Topics whose messages are tried again after pauses, at this moment."""
    received: int
    """Messages that hubs have delivered to subscriptions. What comes again after a reconnection does not count."""
    dropped: int
    """Messages that hubs delivered unasked or out of order, which the client drops. A correct hub causes none."""
    subscriptions: int
    """Open subscriptions, at this moment."""
    attached_subscriptions: int
    """Those of them to which a hub delivers, at this moment."""
    late_subscriptions: int
    """Those of them that are attached again after pauses, at this moment."""
    lost_attachments: int
    """How often a subscription lost its hub: its connection ended, or its topic moved."""
    connections: int
    """Open connections, at this moment."""
    lost_connections: int
    """Connections that this client did not close itself."""


class Troubles:
    """What is in trouble now, of very many things. One line in the log says that it began, one that all is over."""

    def __init__(self, begins: str, ends: str) -> None:
        """`begins` is the text of the first line, in which %s stands for the reason; `ends` is that of the other."""
        self._begins = begins
        self._ends = ends
        self._keys: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def begin(self, key: Hashable, why: object) -> None:
        """Record that a thing is in trouble, if it was not yet."""
        if not self._keys:
            _log.warning(self._begins, why)
        self._keys.add(key)

    def end(self, key: Hashable) -> None:
        """Record that a thing is in trouble no longer, if it was."""
        if key in self._keys:
            self._keys.remove(key)
            if not self._keys:
                _log.info(self._ends)


_PUBLISHING: Final = ("a publish is tried again until its deadline: %s", "no publish is tried again any more")
_SUBSCRIBING: Final = ("a subscription is not attached, and is tried again: %s", "all subscriptions are attached again")


class Activity:
    """The counts of one client, which its parts write."""

    __slots__ = (
        "dropped",
        "late_subscriptions",
        "late_topics",
        "lost_attachments",
        "lost_connections",
        "publish_errors",
        "publish_repeats",
        "published",
        "received",
    )

    def __init__(self) -> None:
        self.published = 0
        self.publish_errors = 0
        self.publish_repeats = 0
        self.received = 0
        self.dropped = 0
        self.lost_attachments = 0
        self.lost_connections = 0
        self.late_topics = Troubles(*_PUBLISHING)
        self.late_subscriptions = Troubles(*_SUBSCRIBING)
