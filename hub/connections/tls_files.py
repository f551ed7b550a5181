"""The files of a hub's TLS listeners: when they change, connections from then on use what they have."""

import logging
import ssl
from pathlib import Path

from hedwig.errors import ConfigurationError
from hedwig.hub.connections.tls import TlsSettings, tls_context
from hedwig.hub.connections.tls_listener import TlsListener
from hedwig.hub.options.options import HubOptions

__all__ = ["TlsFiles"]

_log = logging.getLogger(__name__)


class TlsFiles:
    """The certificate, its key, and the authorities of clients. Open connections go on with what they began with."""

    def __init__(self, options: HubOptions) -> None:
        self._options = options
        named = (options.tls_certificate, options.tls_key, options.access.client_ca)
        self._paths = [Path(name) for name in named if name]
        self._seen = self._states()
        self._listeners: list[tuple[TlsListener, TlsSettings]] = []

    def context(self, settings: TlsSettings) -> ssl.SSLContext:
        """Return what a listener needs, with what the files have now. Raises: ConfigurationError."""
        return tls_context(self._options, settings)

    def follow(self, listener: TlsListener, settings: TlsSettings) -> None:
        """Let a listener use the files whenever they change from now on."""
        self._listeners.append((listener, settings))

    async def look(self) -> None:
        """Let the listeners use the files if they have changed. Of files that make no sense, they use nothing."""
        seen = self._states()
        if seen == self._seen:
            return
        self._seen = seen  # A file that is being written changes again.
        try:
            contexts = [self.context(settings) for _, settings in self._listeners]
        except ConfigurationError as exc:
            _log.error("the TLS listeners go on with the files that they have read before: %s", exc)
            return
        for (listener, _), context in zip(self._listeners, contexts, strict=True):
            listener.context = context
        _log.info("the TLS listeners use %s as changed", ", ".join(map(str, self._paths)))

    def _states(self) -> list[tuple[int, int] | None]:
        return [_state(path) for path in self._paths]


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
