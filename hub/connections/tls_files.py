"""The files of a hub's TLS listener: when they change, connections from then on use what they have."""

import logging
import ssl
from pathlib import Path

from hedwig.errors import ConfigurationError
from hedwig.hub.connections.tls import tls_context
from hedwig.hub.connections.tls_listener import TlsListener
from hedwig.hub.options.options import HubOptions

__all__ = ["TlsFiles"]

_log = logging.getLogger(__name__)


class TlsFiles:
    """The certificate, its key, and the authorities of clients. Open connections go on with what they began with."""

    def __init__(self, options: HubOptions) -> None:
        """Read the files. Raises: ConfigurationError - the TLS listener cannot use them."""
        self._options = options
        named = (options.tls_certificate, options.tls_key, options.access.client_ca)
        self._paths = [Path(name) for name in named if name]
        self._seen = self._states()
        self.context: ssl.SSLContext | None = tls_context(options)
        """The settings to listen with; None for no TLS listener."""

    async def look(self, listener: TlsListener) -> None:
        """Let a listener use the files if they have changed. Of files that make no sense, it uses nothing."""
        seen = self._states()
        if seen == self._seen:
            return
        self._seen = seen  # A file that is being written changes again.
        try:
            context = tls_context(self._options)
        except ConfigurationError as exc:
            _log.error("the TLS listener goes on with the files that it has read before: %s", exc)
            return
        assert context is not None, "there is a listener"
        listener.context = context
        _log.info("the TLS listener uses %s as changed", ", ".join(map(str, self._paths)))

    def _states(self) -> list[tuple[int, int] | None]:
        return [_state(path) for path in self._paths]


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
