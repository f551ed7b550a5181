"""The settings by which servers of a secure directory speak TLS, and ask for the certificate of its client."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hedwig.cli.dev.certificates import AUTHORITY, CLIENT, ROLE, SERVER, SERVER_CERTIFICATE, SERVER_KEY
from hedwig.cli.dev.errors import DevError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.servers.server_kind import Site

__all__ = ["bookie_tls", "hbase_tls", "refuse_tls", "zookeeper_client_tls", "zookeeper_tls"]

_ZOOKEEPER: Final = "org.apache.zookeeper"


def zookeeper_tls(secure: Path | None, port: int) -> Mapping[str, object]:
    """Return the properties of a ZooKeeper server for its TLS port, with the files of a directory; none without it."""
    if secure is None:
        return {}
    return {
        "secureClientPort": port,
        "secureClientPortAddress": LOOPBACK,
        "serverCnxnFactory": f"{_ZOOKEEPER}.server.NettyServerCnxnFactory",
        "authProvider.x509": f"{_ZOOKEEPER}.server.auth.X509AuthenticationProvider",
        "ssl.clientAuth": "need",
        "ssl.keyStore.type": "PEM",
        "ssl.keyStore.location": secure / SERVER,
        "ssl.trustStore.type": "PEM",
        "ssl.trustStore.location": secure / AUTHORITY,
    }


def zookeeper_client_tls(site: Site) -> Sequence[str]:
    """Return the flags of a Java server that is a client of that ZooKeeper."""
    if site.secure is None:
        return ()
    return (
        "-Dzookeeper.client.secure=true",
        f"-Dzookeeper.clientCnxnSocket={_ZOOKEEPER}.ClientCnxnSocketNetty",
        # The server is a later release, which takes no other; that of the client begins with an older one.
        "-Dzookeeper.ssl.protocol=TLSv1.3",
        "-Dzookeeper.ssl.keyStore.type=PEM",
        f"-Dzookeeper.ssl.keyStore.location={site.secure / CLIENT}",
        "-Dzookeeper.ssl.trustStore.type=PEM",
        f"-Dzookeeper.ssl.trustStore.location={site.secure / AUTHORITY}",
    )


def hbase_tls(site: Site) -> Mapping[str, object]:
    """Return the properties of HBase servers, which are clients of each other too."""
    if site.secure is None:
        return {}
    return {
        "hbase.server.netty.tls.enabled": "true",
        "hbase.server.netty.tls.supportplaintext": "false",
        "hbase.server.netty.tls.client.auth.mode": "NEED",
        "hbase.server.netty.tls.verify.client.hostname": "false",
        "hbase.client.netty.tls.enabled": "true",
        "hbase.rpc.tls.keystore.type": "PEM",
        "hbase.rpc.tls.keystore.location": site.secure / SERVER,
        "hbase.rpc.tls.truststore.type": "PEM",
        "hbase.rpc.tls.truststore.location": site.secure / AUTHORITY,
    }


def bookie_tls(site: Site) -> Mapping[str, object]:
    """Return the properties of a bookie. It serves those only whose certificate names their role in its OU."""
    if site.secure is None:
        return {}
    return {
        "tlsProvider": "JDK",
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsClientAuthentication": "true",
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": site.secure / SERVER_KEY,
        "tlsCertificatePath": site.secure / SERVER_CERTIFICATE,
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": site.secure / AUTHORITY,
        # Without a role a bookie would also serve whoever does not ask for TLS.
        "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory",
        "authorizedRoles": ROLE,
    }


def refuse_tls(site: Site, what: str) -> None:
    """Raise DevError in a secure directory, for servers that speak no TLS."""
    if site.secure is not None:
        raise DevError(f"cannot start {what} beside secure servers: it speaks no TLS; give another --dir")
