"""Kerberos: a server that gives tickets, and the settings by which HBase takes them."""

import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hedwig.cli.dev.certificates import (
    CLIENT_KEYTAB,
    CLIENT_PRINCIPAL,
    KERBEROS,
    REALM,
    SERVER_KEYTAB,
    SERVER_PRINCIPAL,
)
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.sockets import check_listening
from hedwig.cli.dev.servers.server_kind import KDC, Launch, PortKeeper, Service, Site
from hedwig.cli.dev.state import ServerRecord
from hedwig.private_files import make_token

__all__ = ["KERBEROS_SERVICE", "KdcKind", "hadoop_kerberos", "hbase_kerberos", "kerberos_flags"]

_PASSWORD: Final = "kdc-password"
_CONFIGURATION: Final = """[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
"""


@dataclass(frozen=True, slots=True)
class KdcKind:
    """The server of Kerberos that comes with Hadoop, for tests."""

    name: str = KDC
    classpath: str = "kerby"
    heap_mb: int = 128
    count_option: str | None = None
    starts_after: Sequence[str] = ()
    answers_after: Sequence[str] = ()
    # Its configuration names it, and others have read that.
    port_kept_by: PortKeeper = PortKeeper.ITS_DATA

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("kdc",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write krb5.conf, and the password of all principals if there is none."""
        assert site.secure is not None, "the launcher sees to it"
        password = site.secure / _PASSWORD
        make_token(password)
        text = _CONFIGURATION.format(realm=REALM, host=LOOPBACK, port=record.port)
        (site.secure / KERBEROS).write_text(text)
        directory = site.configuration(record.name)
        source = directory / "Kdc.java"
        source.write_bytes(importlib.resources.files("hedwig.cli.dev").joinpath("programs", source.name).read_bytes())
        keytabs = {SERVER_PRINCIPAL: SERVER_KEYTAB, CLIENT_PRINCIPAL: CLIENT_KEYTAB}
        pairs = [text for principal, keytab in keytabs.items() for text in (principal, str(site.secure / keytab))]
        arguments = [str(site.scratch(record.name)), LOOPBACK, str(record.port), REALM, str(password), *pairs]
        return Launch(str(source), arguments, class_directory=directory)

    def check(self, site: Site, record: ServerRecord) -> None:  # noqa: ARG002 (its port says it all)
        """Check that it listens, which it does once it has written the keytabs."""
        check_listening(record.port)


def hbase_kerberos(site: Site) -> Mapping[str, object]:
    """Return the properties of HBase servers that know their users by Kerberos; none without its server."""
    if site.kerberos is None or site.secure is None:
        return {}
    logins = {f"hbase.{server}.kerberos.principal": SERVER_PRINCIPAL for server in ("master", "regionserver")}
    keytabs = {f"hbase.{server}.keytab.file": site.secure / SERVER_KEYTAB for server in ("master", "regionserver")}
    return {
        "hbase.security.authentication": "kerberos",
        "hbase.coprocessor.region.classes": "org.apache.hadoop.hbase.security.token.TokenProvider",
        **logins,
        **keytabs,
    }


def hadoop_kerberos(site: Site) -> Mapping[str, object]:
    """Return the properties of Hadoop by which its servers log in; none without Kerberos."""
    return {} if site.kerberos is None else {"hadoop.security.authentication": "kerberos"}


def kerberos_flags(site: Site) -> Sequence[str]:
    """Return the flags of a Java server that uses Kerberos."""
    if site.kerberos is None or site.secure is None:
        return ()
    return (
        f"-Djava.security.krb5.conf={site.secure / KERBEROS}",
        "--add-exports",
        "java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    )


KERBEROS_SERVICE = Service(KDC, (KdcKind(),))
