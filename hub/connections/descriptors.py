"""File descriptors: how many connections fit under the limit of the process, beside the files of the hub itself.

A connection that takes the last descriptor harms all clients: the ledger store cannot make its next segment, and
publishes fail. So the hub refuses connections before that.
"""

import logging
import resource
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["ConnectionLimits"]

_log = logging.getLogger(__name__)

_OWN: Final = 128
"""Descriptors for the ledgers, the metadata, the admin endpoint and the interpreter."""
_BACKLOG: Final = 4096
_BACKLOG_SHARE: Final = 4
"""If descriptors are few, one in N is for connections that the system has accepted and the hub has not seen yet."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The hub serves at most `connections` at once, and at most `backlog` more wait in the system to be accepted."""

    connections: int
    backlog: int

    @classmethod
    def fit(cls, connections_max: int) -> Self:
        """Return the limits of a hub that should serve `connections_max`; raise the process's own limit if possible."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = connections_max + _BACKLOG + _OWN
        if soft != resource.RLIM_INFINITY and soft < needed:
            soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft == resource.RLIM_INFINITY or soft >= needed:
            return cls(connections_max, _BACKLOG)
        spare = max(2, soft - _OWN)
        backlog = min(_BACKLOG, max(1, spare // _BACKLOG_SHARE))
        connections = min(connections_max, spare - backlog)
        if connections < connections_max:
            _log.warning(
                "at most %d connections are served, not %d: the process may open %d files only (ulimit -n)",
                connections,
                connections_max,
                soft,
            )
        return cls(connections, backlog)
