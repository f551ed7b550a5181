"""The URL that names a metadata store."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from hedwig.errors import ConfigurationError

__all__ = ["MetadataUrl", "family_of", "zookeeper_address"]

_ZOOKEEPER_PORT: Final = 2181
_ZOOKEEPERS_OWN: Final = "zookeeper"
"""ZooKeeper reserves the nodes below this one for itself."""


@dataclass(frozen=True, slots=True)
class MetadataUrl:
    """A parsed metadata URL: `scheme://host:port[,host:port…]/path?key=value`.

    `hosts` is the text between `//` and the path; `path` is percent-decoded and keeps its leading slash.
    """

    text: str
    scheme: str
    hosts: str
    path: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `text`. Raises ConfigurationError if it is not such a URL."""
        try:
            parts = urlsplit(text)
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as exc:
            raise ConfigurationError(f"the metadata URL {text!r} cannot be read: {exc}") from exc
        if not parts.scheme or "://" not in text:
            raise ConfigurationError(
                f"the metadata URL {text!r} has no scheme; write for example sqlite:///path/to/file"
            )
        parameters = dict(pairs)
        if len(parameters) != len(pairs):
            raise ConfigurationError(f"the metadata URL {text!r} gives a parameter twice")
        return cls(text, parts.scheme, parts.netloc, unquote(parts.path), parameters)

    @property
    def family(self) -> str:
        """Return the common name of the backends that share tables and versions with this one."""
        return family_of(self.scheme)

    @property
    def file(self) -> Path:
        """Return the file that the path names. `/./path` is relative to the working directory of the process."""
        return Path(self.path.removeprefix("/") if self.path.startswith("/./") else self.path)

    def endpoints(self, default_port: int) -> tuple[tuple[str, int], ...]:
        """Return the (host, port) pairs. Raises ConfigurationError if there is none or a port is not a number."""
        pairs = []
        for item in self.hosts.split(","):
            host, colon, port = item.rpartition(":")
            if not colon or port.endswith("]"):
                host, port = item, str(default_port)
            if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
                raise ConfigurationError(f"the metadata URL {self.text!r} needs host:port after //, not {item!r}")
            pairs.append((host.strip("[]"), int(port)))
        return tuple(pairs)

    def check_parameters(self, known: frozenset[str] = frozenset()) -> None:
        """Raise ConfigurationError for a parameter that the backend does not know."""
        for name in self.parameters:
            if name not in known:
                choice = f"it knows {', '.join(sorted(known))}" if known else "it takes none"
                raise ConfigurationError(f"{self.scheme} URLs have no parameter {name!r}; {choice}")


def family_of(scheme: str) -> str:
    """Return the common name of the backends that share tables and versions with the one of `scheme`."""
    return scheme.partition("+")[0]


def zookeeper_address(url: str) -> tuple[str, str]:
    """Return the hosts and the path of zookeeper://host:port[,…]/path. Raises ConfigurationError: it is not one."""
    parsed = MetadataUrl.parse(url)
    hosts = ",".join(f"{host}:{port}" for host, port in parsed.endpoints(_ZOOKEEPER_PORT))
    root, *components = parsed.path.split("/")
    is_path = not root and components and all(components) and components[0] != _ZOOKEEPERS_OWN
    if parsed.scheme != "zookeeper" or parsed.parameters or not is_path:
        raise ConfigurationError(f"{url!r} is no path in ZooKeeper; write for example zookeeper://host:2181/path")
    return hosts, parsed.path
