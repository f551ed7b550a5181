"""The stores file: with which logins and certificates programs of a deployment reach stores that ask for them.

One file in TOML serves hubs, commands and Spark. Only its path is an option, so no secret stands in an option, an error
or a pickled task. Paths in the file are relative to its directory:

    [zookeeper]
    logins = ["hedwig:PASSWORD"]      # for the scheme digest; mostly one
    new_nodes = "closed"              # "open" while some hubs have no login yet
    tls_ca = "ca.pem"                 # then sessions speak TLS
    tls_certificate = "hub.pem"       # with its key

    [hbase]                           # the region servers and masters
    tls_ca = "ca.pem"
    tls_certificate = "hub.pem"
    kerberos_servers = "hbase/_HOST@EXAMPLE.ORG"    # then programs log in by Kerberos
    kerberos_client = "hedwig@EXAMPLE.ORG"          # without these two, as the user of `kinit`
    kerberos_keytab = "hedwig.keytab"
    kerberos_config = "krb5.conf"                   # without it, that of the machine
    token = "hbase.token"                           # in place of the four

    [bookkeeper]                      # the bookies
    tls_ca = "ca.pem"
    tls_certificate = "hub.pem"
"""

import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hedwig.errors import ConfigurationError
from hedwig.reasons import reason_of

__all__ = [
    "NO_ACCESS",
    "NO_HBASE_ACCESS",
    "STORES_FILE",
    "HBaseAccess",
    "KerberosLogin",
    "StoreAccess",
    "TlsFiles",
    "ZooKeeperAccess",
]

STORES_FILE: Final = "HEDWIG_STORES_FILE"
"""The variable of the environment with the path of the file, for commands and tasks of Spark."""

_FILE_BYTES_MAX: Final = 1 << 16
_CLOSED: Final = "closed"
_OPEN: Final = "open"
_TLS_KEYS: Final = frozenset({"tls_ca", "tls_certificate"})
_KERBEROS_KEYS: Final = frozenset({"kerberos_servers", "kerberos_client", "kerberos_keytab", "kerberos_config"})
_TOKEN_KEY: Final = "token"
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "zookeeper": _TLS_KEYS | {"logins", "new_nodes"},
    "hbase": _TLS_KEYS | _KERBEROS_KEYS | {_TOKEN_KEY},
    "bookkeeper": _TLS_KEYS,
}
"""The keys of each table."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authorities that certify a store's servers, and the certificate, with its key, to show them."""

    authorities: Path
    certificate: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return settings that check the server's name too, from the files as they are now.

        Raises: ConfigurationError - one of them cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=str(self.authorities))
        except OSError as exc:
            raise ConfigurationError(f"cannot read authorities in {self.authorities}: {reason_of(exc)}") from exc
        if self.certificate is not None:
            try:
                # Without a password, OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.certificate, password="")
            except OSError as exc:
                raise ConfigurationError(
                    f"the file {self.certificate} needs a certificate, and its key without a password: {reason_of(exc)}"
                ) from exc
        return context


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """What a session shows to ZooKeeper.

    `logins` are texts USER:PASSWORD of the digest scheme. Nodes that the session makes are closed to others, if it has
    a login and `closes_nodes`. Then each login may do everything with them.
    """

    logins: tuple[str, ...] = field(default=(), repr=False)
    closes_nodes: bool = True
    tls: TlsFiles | None = None


NO_ACCESS: Final = ZooKeeperAccess()
"""What a session shows without a stores file: nothing."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """How a program logs in to servers by Kerberos.

    `servers` is their principal; `_HOST` in it stands for the name of the server. Without a `client` and its keytab,
    the tickets of the user count. `config` is for the whole process.
    """

    servers: str
    client: str = ""
    keytab: Path | None = None
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class HBaseAccess:
    """What a connection shows to HBase."""

    tls: TlsFiles | None = None
    kerberos: KerberosLogin | None = None
    token: Path | None = None
    """The file with a token of HBase, in place of a login by Kerberos."""


NO_HBASE_ACCESS: Final = HBaseAccess()


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The content of a stores file. Without one, nothing is shown, and nothing is encrypted."""

    zookeeper: ZooKeeperAccess = NO_ACCESS
    hbase: HBaseAccess = NO_HBASE_ACCESS
    bookkeeper: TlsFiles | None = None

    @classmethod
    def read(cls, path: str) -> "StoreAccess":
        """Return the content of the file at `path`; that without a file if it is empty.

        Raises: ConfigurationError - it cannot be read, or a file that it names cannot be used.
        """
        if not path:
            return cls()
        try:
            with Path(path).open("rb") as file:
                text = file.read(_FILE_BYTES_MAX + 1)
            if len(text) > _FILE_BYTES_MAX:  # What is cut off could be what makes it safe.
                raise ConfigurationError(f"the stores file {path} has more than {_FILE_BYTES_MAX} bytes")
            content = tomllib.loads(text.decode())
        except OSError as exc:
            raise ConfigurationError(f"cannot read the stores file {path}: {reason_of(exc)}") from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            # What these say of the place may be the secret.
            raise ConfigurationError(f"the stores file {path} is no TOML") from None
        try:
            return cls._of(content, Path(path).parent)
        except ConfigurationError as exc:
            raise ConfigurationError(f"the stores file {path}: {exc}") from exc

    @classmethod
    def _of(cls, content: Mapping[str, Any], directory: Path) -> "StoreAccess":
        for name, table in content.items():
            if name not in _KEYS:
                raise ConfigurationError(f"there is no table {name!r}; choose from {', '.join(_KEYS)}")
            if not isinstance(table, dict):
                raise ConfigurationError(f"{name} must be a table: [{name}]")
            if unknown := sorted(set(table) - _KEYS[name]):
                known = ", ".join(sorted(_KEYS[name]))
                raise ConfigurationError(f"{name}.{unknown[0]} is unknown; choose from {known}")
        hbase = content.get("hbase", {})
        return cls(
            _zookeeper(content.get("zookeeper", {}), directory),
            HBaseAccess(_tls("hbase", hbase, directory), _kerberos(hbase, directory), _token(hbase, directory)),
            _tls("bookkeeper", content.get("bookkeeper", {}), directory),
        )


def _token(table: Mapping[str, Any], directory: Path) -> Path | None:
    name = table.get(_TOKEN_KEY)
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        raise ConfigurationError("hbase.token must be the path of a file")
    if _KERBEROS_KEYS & set(table):
        raise ConfigurationError("hbase.token takes the place of a login by Kerberos: leave out hbase.kerberos_servers")
    return directory / name


def _kerberos(table: Mapping[str, Any], directory: Path) -> KerberosLogin | None:
    for key in _KERBEROS_KEYS & set(table):
        if not (isinstance(table[key], str) and table[key].isprintable() and table[key]):
            raise ConfigurationError(f"hbase.{key} must be a text")
    names = ("servers", "client", "keytab", "config")
    servers, client, keytab, config = (table.get(f"kerberos_{key}", "") for key in names)
    if not servers:
        if client or keytab or config:
            raise ConfigurationError("hbase.kerberos_client needs hbase.kerberos_servers, the principal of the servers")
        return None
    if bool(client) != bool(keytab):
        raise ConfigurationError("hbase.kerberos_client and hbase.kerberos_keytab need each other")
    files = [directory / name if name else None for name in (keytab, config)]
    for file in files:
        try:
            if file is not None:
                file.open("rb").close()
        except OSError as exc:
            raise ConfigurationError(f"cannot read {file}: {reason_of(exc)}") from exc
    return KerberosLogin(servers, client, *files)


def _zookeeper(table: Mapping[str, Any], directory: Path) -> ZooKeeperAccess:
    logins = table.get("logins", [])
    if not isinstance(logins, list) or not all(map(_is_login, logins)):
        raise ConfigurationError('zookeeper.logins must be texts in ASCII: ["USER:PASSWORD"]')
    new_nodes = table.get("new_nodes", _CLOSED)
    if new_nodes not in (_CLOSED, _OPEN):
        raise ConfigurationError(f"zookeeper.new_nodes must be {_CLOSED!r} or {_OPEN!r}")
    return ZooKeeperAccess(tuple(logins), new_nodes == _CLOSED, _tls("zookeeper", table, directory))


def _is_login(login: object) -> bool:
    if not isinstance(login, str) or not (login.isascii() and login.isprintable()):
        return False
    user, _, password = login.partition(":")
    return bool(user and password)


def _tls(name: str, table: Mapping[str, Any], directory: Path) -> TlsFiles | None:
    for key in _TLS_KEYS & set(table):
        if not isinstance(table[key], str) or not table[key]:
            raise ConfigurationError(f"{name}.{key} must be the path of a PEM file")
    if "tls_ca" not in table:
        if "tls_certificate" in table:
            raise ConfigurationError(f"{name}.tls_certificate needs {name}.tls_ca, by which servers are known")
        return None
    certificate = table.get("tls_certificate")
    files = TlsFiles(directory / table["tls_ca"], None if certificate is None else directory / certificate)
    files.context()
    return files
