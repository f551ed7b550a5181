"""The two Thrift gateways of HBase: Thrift2, which our driver uses, and Thrift1, which happybase speaks."""

from collections.abc import Sequence
from dataclasses import dataclass

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.thrift import check_client, read_tables_of_thrift1, thrift2_has_table
from hedwig.cli.dev.servers.hbase import MASTER, REGION_SERVER, write_hbase_configuration
from hedwig.cli.dev.servers.server_kind import Launch, PortKeeper, Service, Site
from hedwig.cli.dev.servers.tls import zookeeper_client_tls
from hedwig.cli.dev.state import ServerRecord

__all__ = ["THRIFT1", "THRIFT2", "GatewayKind"]


@dataclass(frozen=True, slots=True)
class GatewayKind:
    """A Thrift gateway with the defaults of both: binary protocol, unframed, one thread for each connection."""

    name: str
    main_class: str
    classpath: str = "hbase"
    heap_mb: int = 384
    count_option: str | None = None
    starts_after: Sequence[str] = ("zookeeper",)
    # If started earlier, it would try for minutes, with growing pauses, to reach HBase.
    answers_after: Sequence[str] = (MASTER, REGION_SERVER)
    port_kept_by: PortKeeper = PortKeeper.NOBODY

    def port_roles(self, count: int) -> Sequence[str]:  # noqa: ARG002 (as many as there may be of them)
        """Name its port."""
        return ("thrift",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write its hbase-site.xml."""
        check_client()
        directory = write_hbase_configuration(site, record, {})
        arguments = ["start", "-p", str(record.port), "--bind", LOOPBACK, "--infoport", "-1"]
        return Launch(self.main_class, arguments, zookeeper_client_tls(site), directory)

    def check(self, site: Site, record: ServerRecord) -> None:  # noqa: ARG002 (the signature is that of every kind)
        """Make one real call, which the gateway can answer only through HBase."""
        if self.name == "thrift1":
            read_tables_of_thrift1(record.port)
        elif not thrift2_has_table(record.port, "hbase", "namespace"):
            raise NotReadyError("it does not see the tables of HBase")


THRIFT1 = Service("thrift1", (GatewayKind("thrift1", "org.apache.hadoop.hbase.thrift.ThriftServer"),), ("hbase",))
THRIFT2 = Service("thrift2", (GatewayKind("thrift2", "org.apache.hadoop.hbase.thrift2.ThriftServer"),), ("hbase",))
