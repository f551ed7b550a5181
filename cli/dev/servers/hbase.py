"""HBase on an external ZooKeeper: a master and region servers, each in its own process."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from google.protobuf.message import DecodeError

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.hbase import ask_for_tables, live_servers, meta_port, own_name, read_meta
from hedwig.cli.dev.servers.kerberos import hadoop_kerberos, hbase_kerberos, kerberos_flags
from hedwig.cli.dev.servers.log4j import write_log4j
from hedwig.cli.dev.servers.server_kind import KDC, Launch, PortKeeper, Service, Site
from hedwig.cli.dev.servers.tls import hbase_tls, zookeeper_client_tls
from hedwig.cli.dev.state import ServerRecord
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.store_access import HBaseAccess

__all__ = ["HBASE", "MASTER", "REGION_SERVER", "MasterKind", "RegionServerKind", "write_hbase_configuration"]

MASTER, REGION_SERVER = "hbase-master", "regionserver"

_SESSION_TIMEOUT_MS = 4_000
_NEVER_MS = 2_000_000_000


def write_hbase_configuration(site: Site, record: ServerRecord, own: Mapping[str, object]) -> Path:
    """Write hbase-site.xml and log4j.properties for one HBase process and return their directory.

    Each write flushes the log to the system, and the page cache outlives the process. So a write that a region server
    acknowledged survives a kill -9 of the server, but need not survive a crash of the machine.
    """
    zookeepers = site.state.of_kind("zookeeper")
    shared = site.data("hbase")
    properties: dict[str, object] = {
        "hbase.cluster.distributed": "true",
        "hbase.rootdir": f"file://{shared / 'root'}",
        "hbase.tmp.dir": site.scratch(record.name),
        "hadoop.tmp.dir": site.scratch(record.name),
        "hbase.zookeeper.quorum": site.address("zookeeper"),
        "hbase.zookeeper.property.clientPort": zookeepers[0].port,
        "zookeeper.znode.parent": "/hbase",
        "zookeeper.session.timeout": _SESSION_TIMEOUT_MS,
        # Hadoop 2's local file system does not support hflush, and by default a region server aborts without it.
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.master.hostname": "localhost",
        "hbase.master.ipc.address": LOOPBACK,
        "hbase.master.info.port": -1,
        "hbase.regionserver.hostname": "localhost",
        "hbase.regionserver.ipc.address": LOOPBACK,
        "hbase.regionserver.info.port": -1,
        # Skip the waits that suit a large cluster.
        "hbase.regionserver.msginterval": 300,
        "hbase.master.wait.on.regionservers.mintostart": 1,
        "hbase.master.wait.on.regionservers.maxtostart": max(1, len(site.state.of_kind(REGION_SERVER))),
        "hbase.master.wait.on.regionservers.interval": 100,
        "hbase.master.wait.on.regionservers.timeout": 1_000,
        "hbase.procedure.remote.dispatcher.delay.msec": 10,
        # Without this, each family of each written HBase region would reserve 2 MiB. A test run makes hundreds of them.
        "hbase.hregion.memstore.mslab.enabled": "false",
        # Regions move only when a server dies or a client asks for it.
        "hbase.balancer.period": _NEVER_MS,
        "hbase.normalizer.period": _NEVER_MS,
    }
    properties |= {**hbase_tls(site), **hbase_kerberos(site)}
    properties |= own
    properties |= site.state.settings.hbase_properties
    directory = site.configuration(record.name)
    _write(directory / "hbase-site.xml", properties)
    _write(directory / "core-site.xml", hadoop_kerberos(site))
    write_log4j(directory)
    return directory


def _write(path: Path, properties: Mapping[str, object]) -> None:
    entries = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(str(value))}</value></property>\n"
        for name, value in properties.items()
    )
    path.write_text(f'<?xml version="1.0"?>\n<configuration>\n{entries}</configuration>\n')


@dataclass(frozen=True, slots=True)
class MasterKind:
    """The HBase master."""

    name: str = MASTER
    classpath: str = "hbase"
    heap_mb: int = 384
    count_option: str | None = None
    starts_after: Sequence[str] = ("zookeeper", KDC)
    answers_after: Sequence[str] = ()
    port_kept_by: PortKeeper = PortKeeper.NOBODY

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("rpc",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write its hbase-site.xml."""
        directory = write_hbase_configuration(site, record, {"hbase.master.port": record.port})
        return Launch(
            "org.apache.hadoop.hbase.master.HMaster",
            ["start"],
            [*zookeeper_client_tls(site), *kerberos_flags(site)],
            directory,
        )

    def check(self, site: Site, record: ServerRecord) -> None:
        """Ask for the tables, which only an initialised master knows, and read hbase:meta where it says that it is."""
        _check_meta(record.port, site.access)


@dataclass(frozen=True, slots=True)
class RegionServerKind:
    """An HBase region server."""

    name: str = REGION_SERVER
    classpath: str = "hbase"
    heap_mb: int = 512
    count_option: str | None = "regionservers"
    starts_after: Sequence[str] = ("zookeeper", KDC)
    answers_after: Sequence[str] = ()
    port_kept_by: PortKeeper = PortKeeper.NOBODY

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("rpc",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write its hbase-site.xml."""
        directory = write_hbase_configuration(site, record, {"hbase.regionserver.port": record.port})
        main_class = "org.apache.hadoop.hbase.regionserver.HRegionServer"
        return Launch(main_class, ["start"], [*zookeeper_client_tls(site), *kerberos_flags(site)], directory)

    def check(self, site: Site, record: ServerRecord) -> None:
        """Ask it for its name, find this very incarnation among the servers of the master, and read hbase:meta."""
        masters = site.state.of_kind(MASTER)
        if not masters:
            raise NotReadyError("there is no master to register with")
        with _answers_of("it"):
            name = own_name(record.port, site.access)
        with _answers_of("the master"):
            registered = live_servers(masters[0].port, site.access)
        if name not in registered:
            raise NotReadyError("it is not registered with the master yet")
        _check_meta(masters[0].port, site.access)


def _check_meta(master_port: int, access: HBaseAccess) -> None:
    with _answers_of("the master"):
        ask_for_tables(master_port, access)
        meta = meta_port(master_port, access)
    if meta is None:
        raise NotReadyError("hbase:meta is on no region server")
    with _answers_of("hbase:meta"):
        read_meta(meta, access)


@contextlib.contextmanager
def _answers_of(who: str) -> Iterator[None]:
    try:
        yield
    except ServerFailure as exc:
        raise NotReadyError(f"{who} answers {exc.java_class}") from exc
    except (DecodeError, NotReadyError, OSError) as exc:
        raise NotReadyError(f"{who} does not answer: {exc}") from exc


HBASE = Service("hbase", (MasterKind(), RegionServerKind()), ("zookeeper",))
