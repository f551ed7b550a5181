"""Slots: which clients get one of the connections that a hub can serve at once, when these become scarce."""

import logging
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Guest", "Slots", "address_of", "peer_of"]

_log = logging.getLogger(__name__)

_STEEPNESS: Final = 56
"""An address may have N * left² / limit connections. One address alone gets 7/8 of all slots, because the simple
clients of the original take a connection for each subscription. The square makes the last slots go slowly: of 16,000,
the tenth address leaves 44. With a bound in proportion to the slots left, five addresses in turn would take all."""
_SILENT_S: Final = 2.0
"""How long a connection may send no request before the hub may close it to make room for another."""
_NETWORK_BYTES: Final = 8
"""A client with an IPv6 address has the whole 64-bit network of that address."""
_MAPPED: Final = "::ffff:"
"""The prefix of an IPv4 address that is written as an IPv6 address."""


class Guest(Protocol):
    """A connection that has a slot."""

    peer: str
    """address:port."""

    def abort(self) -> None:
        """End the connection at once."""
        ...


class Slots:
    """The slots of one hub. While many are left, every client gets one."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._guests: set[Guest] = set()
        self._by_address: Counter[str | bytes] = Counter()
        self._silent: dict[Guest, float] = {}
        """The connections without a request yet, and when each arrived, in this order."""
        self.refused = 0
        """How many connections got no slot."""
        self.displaced = 0
        """How many connections without a request made room for others."""

    def __len__(self) -> int:
        return len(self._guests)

    def __contains__(self, guest: object) -> bool:
        return guest in self._guests

    def take(self, guest: Guest) -> bool:
        """Give a slot to a new connection; return whether it got one."""
        address = address_of(guest.peer)
        left = self._limit - len(self._guests)
        bound = _STEEPNESS * left * left / self._limit
        if self._by_address[address] >= bound and not self._displace():
            self.refused += 1
            if left > 0:
                _log.warning(
                    "%s: refused: the last %d of %d connections are for others, and its address has %d",
                    guest.peer,
                    left,
                    self._limit,
                    self._by_address[address],
                )
            else:
                _log.warning("%s: refused: %d connections are open, which is the limit", guest.peer, self._limit)
            return False
        self._guests.add(guest)
        self._by_address[address] += 1
        self._silent[guest] = self._monotonic()
        return True

    def heard(self, guest: Guest) -> None:
        """Record the first request of a guest."""
        self._silent.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """Free the slot of a closed connection, if it has one."""
        if guest not in self._guests:
            return
        self._guests.remove(guest)
        self._silent.pop(guest, None)
        address = address_of(guest.peer)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _displace(self) -> bool:
        """Close the connection that is silent for longest, if it is silent for `_SILENT_S`; return whether it did."""
        guest = next(iter(self._silent), None)
        if guest is None or self._monotonic() - self._silent[guest] < _SILENT_S:
            return False
        self.displaced += 1
        _log.warning(
            "%s: closing the connection: it has sent no request, and another client needs its slot", guest.peer
        )
        self.leave(guest)
        guest.abort()
        return True


def address_of(peer: str) -> str | bytes:
    """Return the part of the address that all connections of one machine share."""
    host = peer.rpartition(":")[0]
    if ":" not in host:
        return host
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    try:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:_NETWORK_BYTES]
    except OSError:
        return host


def peer_of(name: object) -> str:
    """Return the name of a socket's other end as host:port."""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
