"""Loopback ports: choose free ones, and tell whether one is still free."""

import random
import socket
from collections.abc import Container
from pathlib import Path

from hedwig.cli.dev.errors import DevError

__all__ = ["LOOPBACK", "choose_port", "is_free"]

LOOPBACK = "127.0.0.1"

_LOWEST = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS = 1_000


def is_free(port: int) -> bool:
    """Tell whether a server could listen on `port` of the loopback address and of the wildcard address."""
    for host in (LOOPBACK, ""):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As the JVM does: connections of an earlier server in TIME_WAIT do not count, but a listener does.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                probe.listen(1)
            except OSError:
                return False
    return True


def choose_port(taken: Container[int], rng: random.Random) -> int:
    """Return a free port that is not in `taken`.

    Avoid the ports that the system uses for outgoing connections. Such a connection could use the port of a server that
    is down for a moment, and keep it from starting again.

    Raises: DevError - no port in the range is free.
    """
    highest = _ephemeral_start() - 1
    for _ in range(_ATTEMPTS):
        port = rng.randint(_LOWEST, highest)
        if port not in taken and is_free(port):
            return port
    raise DevError(
        f"cannot find a free port between {_LOWEST} and {highest} on {LOOPBACK}: stop programs that listen there"
    )


def _ephemeral_start() -> int:
    try:
        start = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
    return start if start > _LOWEST + 1_000 else 65_536
