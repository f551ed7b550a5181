"""The listeners of a hub: its own ports, plain and with TLS, and the named ones."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from hedwig.clock import Clock
from hedwig.errors import ConfigurationError, HedwigError, NotResponsibleForTopicError, ServiceDownError
from hedwig.hub.connections.channel import Channel
from hedwig.hub.connections.listening import Listener, serve
from hedwig.hub.connections.tls.files import TlsFiles
from hedwig.hub.connections.tls.listener import TlsListener
from hedwig.hub.connections.tls.settings import TlsSettings
from hedwig.hub.options.options import HubOptions
from hedwig.model import HubInfo
from hedwig.wire import Request

__all__ = ["Listeners", "Others"]

_log = logging.getLogger(__name__)

Others = Callable[[], Mapping[str, Mapping[str, str]]]
"""Returns the addresses of the named listeners of the live hubs: by the address of the hub, then by name."""


@dataclass(frozen=True, slots=True)
class _Bound:
    listener: Listener
    host: str
    port: int


class Listeners:
    """Binds the addresses of a hub, answers on them, and stops.

    A client that came by a named listener is sent on to listeners of the same name. Else it would be somebody else
    there, or would be turned away.
    """

    def __init__(self, options: HubOptions, make: Callable[[str], Channel], backlog: int, clock: Clock) -> None:
        """`make` returns the channel of a connection that comes by the listener of that name, "" for the hub's own.

        Raises: ConfigurationError - the files of TLS cannot be used.
        """
        self._options = options
        self._make = make
        self._backlog = backlog
        has_tls = options.tls_port >= 0 or options.has_admin_tls or any(each.tls for each in options.listeners.values())
        self.files = TlsFiles(options, clock) if has_tls else None
        """The files of TLS; None if neither a listener nor the admin endpoint speaks it."""
        self._bound: list[_Bound] = []
        self._secure: list[TlsListener] = []
        self.port: int | None = None
        """The plain port of the hub itself; None if it has none."""
        self.tls_port: int | None = None
        self.ports: dict[str, int] = {}
        """The ports of the named listeners."""

    async def bind(self) -> None:
        """Bind all addresses. Raises: ConfigurationError - one is taken, or is none of this machine."""
        options = self._options
        if options.port >= 0:
            self.port = await self._bind("", options.host, options.port, None)
        if options.tls_port >= 0:
            self.tls_port = await self._bind("", options.host, options.tls_port, TlsSettings.of_the_hub(options))
        for name, each in options.listeners.items():
            settings = TlsSettings(each.tls, each.client_certificates) if each.tls else None
            self.ports[name] = await self._bind(name, each.host or options.host, each.port, settings)

    async def _bind(self, name: str, host: str, port: int, tls: TlsSettings | None) -> int:
        make = partial(self._make, name)
        listener: Listener
        try:
            if tls is not None:
                assert self.files is not None, "a listener speaks TLS"
                secure = await TlsListener.bind(
                    host,
                    port,
                    make,
                    self.files.context(tls),
                    backlog=self._backlog,
                    handshake_s=self._options.handshake_s,
                )
                self.files.follow(secure, tls)
                self._secure.append(secure)
                listener = secure
            else:
                listener = await asyncio.get_running_loop().create_server(
                    make, host, port, backlog=self._backlog, reuse_address=True, start_serving=False
                )
        except OSError as exc:
            raise ConfigurationError(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc
        bound = int(listener.sockets[0].getsockname()[1])
        self._bound.append(_Bound(listener, host, bound))
        return bound

    @property
    def own(self) -> HubInfo:
        """The hub as owner records name it, without an epoch."""
        host = self._options.advertised_host or self._options.host
        port = self.port if self.port is not None else self.tls_port
        assert port is not None, "the options have one of both"
        return HubInfo(host=host, port=port, ssl_port=self.tls_port)

    @property
    def addresses(self) -> Mapping[str, str]:
        """The addresses of the named listeners, as redirects spell them."""
        made = {}
        for name, port in self.ports.items():
            each = self._options.listeners[name]
            host = each.advertised_host or self._options.advertised_host or each.host or self._options.host
            made[name] = HubInfo(host=host, port=port, ssl_port=port if each.tls else None).address
        return made

    async def serve(self) -> None:
        """Answer on all addresses. Raises: ConfigurationError - something else listens on one."""
        for each in self._bound:
            await serve(each.listener, each.host, each.port)

    def close(self) -> None:
        """Accept no more connections. May be called twice."""
        for each in self._bound:
            each.listener.close()

    # ------------------------------------------------------------------------------------------------ TLS

    @property
    def handshakes(self) -> int:
        """How many handshakes are running."""
        return sum(each.handshakes for each in self._secure)

    @property
    def failed_handshakes(self) -> int:
        """How many handshakes failed, took too long, or made room for others."""
        return sum(each.failed for each in self._secure)

    # ---------------------------------------------------------------------------------- clients of named listeners

    def end_point(self, channel: Channel) -> bytes | None:
        """Return what the hub's end of a TLS connection is known by; None without TLS."""
        context = channel.tls_context
        return None if context is None or self.files is None else self.files.end_point(context)

    def takes(self, channel: Channel) -> bool:
        """Say whether a connection comes from where clients of its listener may come from."""
        if not channel.listener or self._options.listeners[channel.listener].takes(channel.peer_host):
            return True
        _log.info("%s: closing the connection: clients of %s do not come from there", channel.peer, channel.listener)
        return False

    @staticmethod
    def redirect(name: str, error: NotResponsibleForTopicError, others: Others) -> HedwigError:
        """Return a redirect to the listener of the same name; an error if the other hub is not known to have one."""
        if not error.text:  # It names no hub: the client asks anew.
            return error
        address = others().get(error.text, {}).get(name)
        if address is None:
            return ServiceDownError(
                f"hub {error.text} should serve it, and is not known to have a listener {name!r}; try again, and give "
                "all hubs the same listeners"
            )
        return NotResponsibleForTopicError(address)

    @staticmethod
    def with_hubs(request: Request, others: Others) -> Request:
        """Return a request with the hubs that it has tried named as owner records name them, not by a listener."""
        if not request.tried:
            return request
        names: dict[bytes, bytes] = {}
        for hub, addresses in others().items():
            name = HubInfo.at(hub).name.encode()
            for address in addresses.values():
                names |= dict.fromkeys(HubInfo.at(address).names_in_requests, name)
        return replace(request, tried=tuple(names.get(tried, tried) for tried in request.tried))
