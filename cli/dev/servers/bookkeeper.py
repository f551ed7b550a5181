"""Bookies of BookKeeper 4.17, which keep the messages of our hubs."""

import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from hedwig.cli.dev.errors import NotReadyError
from hedwig.cli.dev.ports import LOOPBACK
from hedwig.cli.dev.probes.sockets import is_answered
from hedwig.cli.dev.probes.zookeeper import create_absent, registered_under
from hedwig.cli.dev.servers.server_kind import Launch, PortKeeper, Service, Site, write_properties
from hedwig.cli.dev.servers.tls import bookie_tls, zookeeper_client_tls
from hedwig.cli.dev.state import ServerRecord
from hedwig.hub.ledgers.bookkeeper.wire.codec import encode_start_tls

__all__ = ["BOOKKEEPER", "LEDGERS_ROOT", "BookieKind"]

_PARENT = "/bookkeeper"
LEDGERS_ROOT = f"{_PARENT}/ledgers"
"""The node of the registered bookies and of ledger metadata. Bookies of 4.3 have another root, and reject this one."""

_AVAILABLE = f"{LEDGERS_ROOT}/available"
_LAYOUT = "2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
_SESSION_TIMEOUT_MS = 4_000
_MIB = 1 << 20

# The protocol's third version, operation "bookie info", transaction 1.
_HEADER = bytes.fromhex("0a06080310081801")
_ASK_FOR_SPACE = _HEADER + bytes.fromhex("ca06 02 0801")
_DONE = bytes.fromhex("1000")

# These settings make a single append quick, as measured in docs/reference/bookkeeper.md.
_JOURNAL: dict[str, object] = {
    "journalSyncData": "true",
    "journalFlushWhenQueueEmpty": "true",
    "journalAdaptiveGroupWrites": "true",
    "journalMaxGroupWaitMSec": 1,
    "journalMaxSizeMB": 64,
    "journalPreAllocSizeMB": 4,
    "journalMaxBackups": 1,
}


@dataclass(frozen=True, slots=True)
class BookieKind:
    """A bookie of BookKeeper 4.17."""

    name: str = "bookie"
    classpath: str = "bookkeeper"
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
        """Set the cluster up in ZooKeeper if no bookie has done so, and write bookie.conf."""
        nodes = dict.fromkeys((_PARENT, LEDGERS_ROOT, _AVAILABLE, f"{_AVAILABLE}/readonly"), "")
        nodes |= {f"{LEDGERS_ROOT}/INSTANCEID": str(uuid.uuid4()), f"{LEDGERS_ROOT}/LAYOUT": _LAYOUT}
        create_absent(site.state.of_kind("zookeeper")[0].port, nodes, site.tls)
        directory, data = site.configuration(record.name), site.data(record.name)
        properties: dict[str, object] = {
            "bookiePort": record.port,
            # Without it a bookie listens on all addresses of the machine.
            "listeningInterface": "lo0" if sys.platform == "darwin" else "lo",
            "advertisedAddress": LOOPBACK,
            "allowLoopback": "true",
            "metadataServiceUri": f"zk+hierarchical://{site.address('zookeeper').replace(',', ';')}{LEDGERS_ROOT}",
            "zkTimeout": _SESSION_TIMEOUT_MS,
            "journalDirectories": data / "journal",
            "ledgerDirectories": data / "ledgers",
            # For a small disk. Bookies preallocate files of this size. By default they refuse entries if less than a
            # gigabyte is free.
            "logSizeLimit": 64 * _MIB,
            "minUsableSizeForEntryLogCreation": _MIB,
            "minUsableSizeForIndexFileCreation": _MIB,
            "diskUsageThreshold": 0.99,
        }
        file = write_properties(
            directory / "bookie.conf",
            properties | _JOURNAL | dict(bookie_tls(site)) | dict(site.state.settings.bookie_properties),
        )
        return Launch("org.apache.bookkeeper.server.Main", ["--conf", str(file)], zookeeper_client_tls(site))

    def check(self, site: Site, record: ServerRecord) -> None:
        """Check that the bookie answers, and is registered as available."""
        if not is_answered(record.port, _ASK_FOR_SPACE, _HEADER + _DONE, site.tls, encode_start_tls()):
            raise NotReadyError("it refuses to say how much space it has")
        # The node may still be that of a killed predecessor, or of a session that ended while ZooKeeper was away. The
        # bookie answers meanwhile, waits until that node is gone, and then makes its own.
        if f"{LOOPBACK}:{record.port}" not in registered_under(site.ports("zookeeper"), _AVAILABLE, site.tls):
            raise NotReadyError(f"it is not registered under {_AVAILABLE}")


BOOKKEEPER = Service("bookkeeper", (BookieKind(),), ("zookeeper",))
