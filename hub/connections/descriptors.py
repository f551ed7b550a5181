"""File descriptors: how many connections fit under the limit of the process, beside what the hub itself opens.

A connection that takes the last descriptor does harm to all: the next segment of the ledgers cannot be made, and
publishes fail. So the hub refuses connections before.
"""

import logging
import resource
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["ConnectionLimits"]

_log = logging.getLogger(__name__)

_OWN: Final = 128
"""For the ledgers, the metadata, the admin endpoint and the interpreter."""
_BACKLOG: Final = 4096
_BACKLOG_SHARE: Final = 4
"""The part of few descriptors that is for connections which the system has accepted, and the hub not seen yet."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """At most `connections` are served at once, and `backlog` of them wait in the system to be accepted."""

    connections: int
    backlog: int

    @classmethod
    def fit(cls, connections_max: int) -> Self:
        """Return the limits of a hub that would serve `connections_max`; raise the process's own, as far as it may."""
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
