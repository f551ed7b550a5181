"""Places: who may have one of the connections that a hub can serve at once, when they become scarce."""

import logging
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Guest", "Slots"]

_log = logging.getLogger(__name__)

_STEEPNESS: Final = 56
"""An address may have so many times left² / limit connections. One alone gets 7/8 of all places, for the simple clients
of the original take a connection for each subscription. The square has the last places go slowly: in proportion to what
is left, five addresses, one after the other, would take all of 16,000. So the tenth leaves 44 of them."""
_SILENT_S: Final = 2.0
"""How long a connection may be without a request before it makes place for another, where there is no other place."""
_NETWORK_BYTES: Final = 8
"""Whoever has an address of IPv6 has the whole network of 64 bits that it is in."""
_MAPPED: Final = "::ffff:"
"""How an address of IPv4 begins that is written as one of IPv6."""


class Guest(Protocol):
    """A connection that has a place."""

    peer: str
    """address:port."""

    def abort(self) -> None:
        """End the connection at once."""
        ...


class Slots:
    """The places of one hub. As long as many are left, whoever comes gets one."""

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._guests: set[Guest] = set()
        self._by_address: Counter[str | bytes] = Counter()
        self._silent: dict[Guest, float] = {}
        """When those came who have not sent a request yet, in this order."""
        self.refused = 0
        """How many connections found no place."""
        self.displaced = 0
        """How many had sent no request, and made place for others."""

    def __len__(self) -> int:
        return len(self._guests)

    def __contains__(self, guest: object) -> bool:
        return guest in self._guests

    def take(self, guest: Guest) -> bool:
        """Give a place to whoever has just connected; return whether there is one."""
        address = _address(guest.peer)
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
                _log.warning("%s: refused: %d connections are open, as many as may be", guest.peer, self._limit)
            return False
        self._guests.add(guest)
        self._by_address[address] += 1
        self._silent[guest] = self._monotonic()
        return True

    def heard(self, guest: Guest) -> None:
        """Take note of the first request of a guest."""
        self._silent.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """Take note that a connection is closed, if it has a place."""
        if guest not in self._guests:
            return
        self._guests.remove(guest)
        self._silent.pop(guest, None)
        address = _address(guest.peer)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _displace(self) -> bool:
        """Have whoever is silent for longest make place; return whether there is anybody who must."""
        guest = next(iter(self._silent), None)
        if guest is None or self._monotonic() - self._silent[guest] < _SILENT_S:
            return False
        self.displaced += 1
        _log.warning("%s: closing the connection: it has sent no request, and its place is needed", guest.peer)
        self.leave(guest)
        guest.abort()
        return True


def _address(peer: str) -> str | bytes:
    """Return what the connections of one machine have in common."""
    host = peer.rpartition(":")[0]
    if ":" not in host:
        return host
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    try:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:_NETWORK_BYTES]
    except OSError:
        return host
