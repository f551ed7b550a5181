"""What the launcher must know of a kind of server to run it. Each family of kinds has a module of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from hedwig.cli.dev.certificates import AUTHORITY, CLIENT, STORES_FILE
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.state import DirectoryState, ServerRecord
from hedwig.store_access import HBaseAccess, KerberosLogin, StoreAccess, TlsFiles

__all__ = [
    "KDC",
    "SECURE",
    "Launch",
    "PortKeeper",
    "ServerKind",
    "Service",
    "Site",
    "write_properties",
]


KDC: Final = "kdc"
"""The kind of the server of Kerberos."""
SECURE: Final = "secure"
"""The folder of the certificates, and of the stores file."""


class PortKeeper(StrEnum):
    """What else, beside a server, knows its port, so that the server cannot move to another one."""

    NOBODY = "nobody"
    ITS_DATA = "its data"
    THOSE_WHO_NEED_IT = "the configurations of those who need it"


@dataclass(frozen=True, slots=True)
class Site:
    """The directory of the servers as the kinds of server see it."""

    root: Path
    state: DirectoryState

    @property
    def secure(self) -> Path | None:
        """Return the directory of the certificates; None if the servers speak no TLS."""
        directory = self.root / SECURE
        return directory if (directory / STORES_FILE).exists() else None

    @property
    def tls(self) -> TlsFiles | None:
        """Return what a probe shows to the servers."""
        return None if self.secure is None else TlsFiles(self.secure / AUTHORITY, self.secure / CLIENT)

    @property
    def kerberos(self) -> KerberosLogin | None:
        """Return how a probe logs in to HBase; None if HBase asks nobody."""
        if self.secure is None or not self.state.of_kind(KDC):
            return None
        return StoreAccess.read(str(self.secure / STORES_FILE)).hbase.kerberos

    @property
    def access(self) -> HBaseAccess:
        """Return what a probe shows to HBase."""
        return HBaseAccess(self.tls, self.kerberos)

    def data(self, name: str) -> Path:
        """Return the directory for the data of one server, or of several that share it."""
        return _made(self.root / "data" / name)

    def configuration(self, name: str) -> Path:
        """Return the directory for the configuration files of one server."""
        return _made(self.root / "conf" / name)

    def scratch(self, name: str) -> Path:
        """Return the directory for the temporary files of one server."""
        return _made(self.root / "tmp" / name)

    def log(self, name: str) -> Path:
        """Return the log file of one server."""
        return _made(self.root / "logs") / f"{name}.log"

    def ports(self, kind: str) -> list[int]:
        """Return the port of every server of a kind."""
        return [record.port for record in self.state.of_kind(kind)]

    def address(self, kind: str) -> str:
        """Return host:port of every server of a kind, joined by commas."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.ports(kind))


@dataclass(frozen=True, slots=True)
class Launch:
    """How to run a server. `flags` are for the JVM; `class_directory` comes before the jars of the class path."""

    main_class: str
    arguments: Sequence[str] = ()
    flags: Sequence[str] = ()
    class_directory: Path | None = None


class ServerKind(Protocol):
    """One kind of server process."""

    @property
    def name(self) -> str:
        """Name the kind, for instance `regionserver`."""

    @property
    def classpath(self) -> str:
        """Name the class path that it runs on."""

    def port_roles(self, count: int) -> Sequence[str]:
        """Name the ports on which each of `count` servers of the kind listens, the port for clients first.

        Do not name a port on which a server does not listen: it would look free to other programs.
        """

    @property
    def heap_mb(self) -> int:
        """Return its heap limit unless the caller sets one."""

    @property
    def count_option(self) -> str | None:
        """Name the count of its servers; None if there is always one, which has the name of the kind."""

    @property
    def starts_after(self) -> Sequence[str]:
        """Name the kinds that must answer before this one starts."""

    @property
    def answers_after(self) -> Sequence[str]:
        """Name the kinds that must answer before this one can be asked whether it answers."""

    @property
    def port_kept_by(self) -> PortKeeper:
        """Say what forbids moving it to another port."""

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write the server's configuration and say how to run it."""

    def check(self, site: Site, record: ServerRecord) -> None:
        """Return when the server really answers.

        Raises: NotReadyError, OSError - it does not do so yet.
        """


@dataclass(frozen=True, slots=True)
class Service:
    """What a user asks for by one name: the kinds of server in it, and the services that it needs."""

    name: str
    kinds: Sequence[ServerKind]
    requires: Sequence[str] = ()


def write_properties(path: Path, properties: Mapping[str, object]) -> Path:
    """Write a file of `name=value` lines, as ZooKeeper, BookKeeper, Hedwig and log4j read them."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
