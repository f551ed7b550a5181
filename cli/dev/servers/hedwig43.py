"""The original Java Hedwig 4.3.2: its hub, and the BookKeeper bookies of the same release that store its messages."""

import importlib.resources
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.sockets import check_listening
from hedwig.cli.dev.probes.zookeeper import create_absent, registered_under
from hedwig.cli.dev.servers.log4j import write_log4j
from hedwig.cli.dev.servers.server_kind import Launch, PortKeeper, Service, Site, write_properties
from hedwig.cli.dev.servers.tls import refuse_tls
from hedwig.cli.dev.state import ServerRecord

__all__ = ["BOOKKEEPER43", "JAVA_HEDWIG", "Bookie43Kind", "JavaHedwigKind"]

_BOOKIE = "bookie43"
_LEDGERS, _AVAILABLE = "/ledgers", "/ledgers/available"
_HEDWIG, _REGION = "/hedwig", "standalone"
_SESSION_TIMEOUT_MS = 6_000


@dataclass(frozen=True, slots=True)
class Bookie43Kind:
    """A bookie of BookKeeper 4.3.2."""

    name: str = _BOOKIE
    classpath: str = "hedwig43"
    heap_mb: int = 256
    count_option: str | None = "bookies"
    starts_after: Sequence[str] = ("zookeeper",)
    answers_after: Sequence[str] = ()
    # The address is in the cookie that the bookie checks at every start, and in the metadata of every ledger.
    port_kept_by: PortKeeper = PortKeeper.ITS_DATA

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("bookie",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Make the znodes that bookies expect, and write bookie.conf."""
        refuse_tls(site, "a bookie of 4.3")
        create_absent(site.state.of_kind("zookeeper")[0].port, {_LEDGERS: "", _AVAILABLE: ""})
        directory, data = site.configuration(record.name), site.data(record.name)
        write_log4j(directory)
        path = write_properties(
            directory / "bookie.conf",
            {
                "bookiePort": record.port,
                # Without it a bookie listens on all addresses of the machine.
                "listeningInterface": "lo0" if sys.platform == "darwin" else "lo",
                "allowLoopback": "true",
                "zkServers": site.address("zookeeper"),
                "zkTimeout": _SESSION_TIMEOUT_MS,
                "zkLedgersRootPath": _LEDGERS,
                "journalDirectory": data / "journal",
                "ledgerDirectories": data / "ledgers",
                "indexDirectories": data / "index",
                # The bookie's own check refuses its own default.
                "logSizeLimit": 500_000_000,
            },
        )
        # Without the module of JNDI's DNS provider the bookie cannot ask a name server for the name of 127.0.0.1. So it
        # uses the hosts file.
        flags = ["--limit-modules", "java.se,jdk.unsupported"]
        return Launch("org.apache.bookkeeper.proto.BookieServer", ["--conf", str(path)], flags, directory)

    def check(self, site: Site, record: ServerRecord) -> None:
        """Check that it is registered as available, and listens."""
        _check_registered(site, record, _AVAILABLE)


@dataclass(frozen=True, slots=True)
class JavaHedwigKind:
    """The original hub, which listens on loopback only."""

    name: str = "java-hedwig"
    classpath: str = "hedwig43"
    heap_mb: int = 512
    count_option: str | None = None
    starts_after: Sequence[str] = ("zookeeper", _BOOKIE)
    answers_after: Sequence[str] = ()
    port_kept_by: PortKeeper = PortKeeper.NOBODY

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("hub",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Make its root znode, and write hub.conf with one copy of an entry for each bookie, but at most two."""
        refuse_tls(site, "the original hub")
        create_absent(site.state.of_kind("zookeeper")[0].port, {_HEDWIG: ""})
        directory, bookies = site.configuration(record.name), len(site.state.of_kind(_BOOKIE))
        write_log4j(directory)
        properties: dict[str, object] = {
            "zk_host": site.address("zookeeper"),
            "zk_timeout": _SESSION_TIMEOUT_MS,
            "server_port": record.port,
            "ssl_enabled": "false",
            "region": _REGION,
            "bk_ensemble_size": min(3, bookies),
            "bk_write_quorum_size": min(2, bookies),
            "bk_ack_quorum_size": min(2, bookies),
        }
        path = write_properties(directory / "hub.conf", properties | dict(site.state.settings.hub_properties))
        source = directory / "LoopbackHub.java"
        source.write_bytes(importlib.resources.files("hedwig.cli.dev").joinpath("programs", source.name).read_bytes())
        return Launch(str(source), [str(path)], class_directory=directory)

    def check(self, site: Site, record: ServerRecord) -> None:
        """Check that its host node exists, and that its port listens."""
        _check_registered(site, record, f"{_HEDWIG}/{_REGION}/hosts")


def _check_registered(site: Site, record: ServerRecord, parent: str) -> None:
    check_listening(record.port)
    registered = registered_under(site.ports("zookeeper"), parent)
    address = f"{LOOPBACK}:{record.port}"
    if not any(name == address or name.startswith(f"{address}:") for name in registered):
        raise NotReadyError(f"{address} is not registered under {parent}")


BOOKKEEPER43 = Service("bookkeeper43", (Bookie43Kind(),), ("zookeeper",))
JAVA_HEDWIG = Service("java-hedwig", (JavaHedwigKind(),), ("bookkeeper43",))
