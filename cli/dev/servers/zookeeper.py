"""ZooKeeper: one server, or a quorum of several."""

from collections.abc import Sequence
from dataclasses import dataclass

from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.zookeeper import check_serving
from hedwig.cli.dev.servers.server_kind import Launch, PortKeeper, Service, Site, write_properties
from hedwig.cli.dev.servers.tls import zookeeper_tls
from hedwig.cli.dev.state import ServerRecord

__all__ = ["ZOOKEEPER", "ZooKeeperKind"]

# The shortest session is two ticks and the longest twenty: 1 s to 10 s.
_TICK_MS = 500


@dataclass(frozen=True, slots=True)
class ZooKeeperKind:
    """A ZooKeeper server."""

    name: str = "zookeeper"
    classpath: str = "zookeeper"
    heap_mb: int = 256
    count_option: str | None = "zookeepers"
    starts_after: Sequence[str] = ()
    answers_after: Sequence[str] = ()
    port_kept_by: PortKeeper = PortKeeper.THOSE_WHO_NEED_IT

    def port_roles(self, count: int) -> Sequence[str]:
        """Name its ports. A server without peers listens for clients only."""
        return ("client", "peer", "election") if count > 1 else ("client",)

    def prepare(self, site: Site, record: ServerRecord) -> Launch:
        """Write zoo.cfg, and myid if there are several servers."""
        data = site.data(record.name)
        properties: dict[str, object] = {
            "tickTime": _TICK_MS,
            "dataDir": data,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
        }
        plain = {"clientPort": record.port, "clientPortAddress": LOOPBACK}
        properties |= zookeeper_tls(site.secure, record.port) or plain
        peers = site.state.of_kind(self.name)
        if len(peers) > 1:
            # In ticks: 10 s to join the leader, 5 s to lag behind it.
            properties |= {"initLimit": 20, "syncLimit": 10}
            for peer in peers:
                properties[f"server.{peer.number}"] = f"{LOOPBACK}:{peer.ports['peer']}:{peer.ports['election']}"
            (data / "myid").write_text(f"{record.number}\n")
        properties |= site.state.settings.zookeeper_properties
        path = write_properties(site.configuration(record.name) / "zoo.cfg", properties)
        logging = [
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
        ]
        return Launch("org.apache.zookeeper.server.quorum.QuorumPeerMain", [str(path)], logging)

    def check(self, site: Site, record: ServerRecord) -> None:
        """Ask for its mode."""
        check_serving(record.port, site.tls)


ZOOKEEPER = Service("zookeeper", (ZooKeeperKind(),))
