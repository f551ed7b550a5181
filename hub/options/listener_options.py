"""The options of a named listener: a port of its own, and who the clients are that come on it."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from hedwig.access import Principal
from hedwig.errors import ConfigurationError, InvalidArgumentError
from hedwig.hub.options.field import check_mechanisms, check_ranges, option

__all__ = ["ClientCertificates", "ListenerOptions", "TlsVersion", "check_listener_names"]

_PORT_MAX: Final = (1 << 16) - 1
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_Network: TypeAlias = IPv4Network | IPv6Network


class TlsVersion:
    """What a listener speaks."""

    NONE: Final = ""
    FOR_ORIGINALS: Final = "1.2"
    """TLS 1.2 and nothing else: the original's client fails at random with TLS 1.3."""
    NEWEST: Final = "1.3"
    """TLS 1.3 and newer."""


class ClientCertificates:
    """Whether clients of a listener show a certificate."""

    NONE: Final = ""
    OPTIONAL: Final = "optional"
    REQUIRED: Final = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOptions:
    """A named listener. Raises: ConfigurationError - a value is out of its range, or two values conflict."""

    port: int = option(0, "port to listen on; 0: any free one")
    host: str = option("", "address to listen on; empty: that of the hub")
    advertised_host: str = option("", "address that redirects name to clients of this listener; empty: that of the hub")
    tls: str = option("", "`1.2`: what the original's clients speak; `1.3`: what ours do; empty: no TLS")
    client_certificates: str = option(
        "", "`optional` or `required`: clients show a certificate of access.client_ca; empty: the hub asks for none"
    )
    mechanisms: tuple[str, ...] = option((), "how clients may log in, as in access.mechanisms; empty: not at all")
    anonymous: str = option("", "the user that clients are who do not say who they are; empty: they may nothing")
    networks: tuple[str, ...] = option((), "networks, as 10.1.0.0/16, from which clients come; empty: all")

    def __post_init__(self) -> None:
        check_ranges(self, (("port", 0, _PORT_MAX),))
        if self.tls not in (TlsVersion.NONE, TlsVersion.FOR_ORIGINALS, TlsVersion.NEWEST):
            raise ConfigurationError(f"tls is {self.tls!r}; it must be 1.2, 1.3 or empty")
        known = (ClientCertificates.NONE, ClientCertificates.OPTIONAL, ClientCertificates.REQUIRED)
        if self.client_certificates not in known:
            raise ConfigurationError(
                f"client_certificates is {self.client_certificates!r}; it must be optional, required or empty"
            )
        if self.client_certificates and not self.tls:
            raise ConfigurationError("client_certificates is set, so tls must be: only TLS has certificates")
        if self.anonymous:
            try:
                Principal(self.anonymous)
            except InvalidArgumentError as exc:
                raise ConfigurationError(f"anonymous is {self.anonymous!r}: {exc}") from exc
        check_mechanisms("", self.mechanisms)
        _networks(self.networks)

    def takes(self, address: str) -> bool:
        """Say whether a client at an IP address may connect."""
        return not self.networks or _is_in(address, _networks(self.networks))


def _is_in(address: str, networks: tuple[_Network, ...]) -> bool:
    try:
        found: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:  # As a socket for both names them.
        found = found.ipv4_mapped
    return any(found in network for network in networks)


@functools.lru_cache(maxsize=64)
def _networks(texts: tuple[str, ...]) -> tuple[_Network, ...]:
    try:
        return tuple(map(ip_network, texts))
    except ValueError as exc:
        raise ConfigurationError(f"networks: {exc}; write one as 10.1.0.0/16") from exc


def check_listener_names(listeners: Mapping[str, ListenerOptions]) -> None:
    """Raise ConfigurationError unless the names of listeners can be parts of keys, and of variables."""
    for name in listeners:
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"listeners: {name!r} cannot be the name of a listener; write small letters, digits and _"
            )
