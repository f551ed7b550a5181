"""The files of a hub's TLS listeners: when they change, connections from then on use what they have."""

import logging
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from hedwig.clock import Clock
from hedwig.errors import ConfigurationError
from hedwig.extras import needed
from hedwig.hub.connections.tls.listener import TlsListener
from hedwig.hub.connections.tls.settings import TlsSettings, tls_context
from hedwig.hub.options.options import HubOptions

if TYPE_CHECKING:
    from hedwig.hub.connections.tls.certificates import Connection, OwnCertificate, RevocationLists

__all__ = ["TlsFiles"]

_log = logging.getLogger(__name__)

_DAY_S: Final = 86_400.0
_SOON_S: Final = 14 * _DAY_S
"""The hub warns of a certificate that ends within N s."""


class TlsFiles:
    """The certificate, its key, and the authorities of clients with their revocation lists.

    Open connections go on with what they began with.
    """

    def __init__(self, options: HubOptions, clock: Clock) -> None:
        """Read the dates and the lists. Raises: ConfigurationError - a file makes no sense."""
        self._options = options
        self._clock = clock
        access = options.access
        named = (options.tls_certificate, options.tls_key, access.client_ca, access.client_crl)
        self._paths = [Path(name) for name in named if name]
        self._seen = self._states()
        self.own, self.revoked = self._read()
        """The certificate of the hub, and the revocation lists."""
        self._end_points: WeakKeyDictionary[ssl.SSLContext, bytes] = WeakKeyDictionary()
        self._warn(self.own, self.revoked)
        self._listeners: list[tuple[TlsListener, TlsSettings]] = []

    def context(self, settings: TlsSettings) -> ssl.SSLContext:
        """Return what a listener needs, with what the files have. Raises: ConfigurationError."""
        context = tls_context(self._options, settings)
        self._end_points[context] = self.own.end_point
        return context

    def end_point(self, context: ssl.SSLContext) -> bytes | None:
        """Return what the hub's end is known by of a connection that was made with this context."""
        return self._end_points.get(context)

    def follow(self, listener: TlsListener, settings: TlsSettings) -> None:
        """Let a listener use the files whenever they change from now on."""
        self._listeners.append((listener, settings))

    async def look(self, connections: "Iterable[Connection]") -> None:
        """Use the files if they have changed, and close the connections whose certificates have ended or are revoked.

        Of files that make no sense, the listeners use nothing, and neither of a certificate that has ended.
        """
        from hedwig.hub.connections.tls.certificates import close_ended

        lists = self.revoked if self._use() else None
        await close_ended(connections, self._clock.wall(), lists)

    def look_at_new(self, connection: "Connection") -> None:
        """Close a connection whose certificate was revoked between the begin and the end of its handshake."""
        if self.revoked is not None and (certificate := connection.certificate_der) is not None:
            from hedwig.hub.connections.tls.certificates import close_as_revoked

            if self.revoked.has(certificate):
                close_as_revoked(connection)

    def _use(self) -> bool:
        """Use the files if they have changed; return whether they are used."""
        seen = self._states()
        if seen == self._seen:
            return False
        self._seen = seen  # A file that is being written changes again.
        try:
            contexts = [tls_context(self._options, settings) for _, settings in self._listeners]
            own, revoked = self._read()
            if own.ends_at < self._clock.wall() < self.own.ends_at:
                raise ConfigurationError(f"the certificate in {self._options.tls_certificate} has ended")
        except ConfigurationError as exc:
            _log.error("the TLS listeners go on with the files that they have read before: %s", exc)
            return False
        for (listener, _), context in zip(self._listeners, contexts, strict=True):
            listener.context = context
            self._end_points[context] = own.end_point
        self.own, self.revoked = own, revoked
        _log.info("the TLS listeners use %s as changed", ", ".join(map(str, self._paths)))
        self._warn(own, revoked)
        return True

    @property
    def days_left(self) -> float:
        """How many days the certificate is still valid."""
        return (self.own.ends_at - self._clock.wall()) / _DAY_S

    def _read(self) -> "tuple[OwnCertificate, RevocationLists | None]":
        with needed("hub", "TLS needs"):  # Only hubs with TLS spend the memory.
            from hedwig.hub.connections.tls.certificates import OwnCertificate, RevocationLists
        lists = self._options.access.client_crl
        return OwnCertificate.read(Path(self._options.tls_certificate)), RevocationLists(Path(lists)) if lists else None

    def _warn(self, own: "OwnCertificate", revoked: "RevocationLists | None") -> None:
        if own.ends_at < self._clock.wall() + _SOON_S:
            left = (own.ends_at - self._clock.wall()) / _DAY_S
            _log.warning("the certificate in %s is valid for %.1f more days", self._options.tls_certificate, left)
        for authority in revoked.overdue if revoked is not None else ():
            _log.warning("the revocation list of %s is overdue: no certificate of it is taken", authority)

    def _states(self) -> list[tuple[int, int] | None]:
        return [_state(path) for path in self._paths]


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
