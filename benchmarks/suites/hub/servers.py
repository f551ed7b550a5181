"""The servers under the hubs that `hedwig-bench hub` measures: ZooKeeper, bookies, HBase, and the original hub."""

import asyncio
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from hedwig.benchmarks.drivers.drivers import LEDGERS
from hedwig.benchmarks.machine.jvm_flags import AS_IN_PRODUCTION, flags_as_in_production, flags_of_servers
from hedwig.benchmarks.suites.hub.original_hub import OriginalHub
from hedwig.benchmarks.suites.hub.process import AnyHub, HubProcess
from hedwig.benchmarks.suites.hub.sizes import CLUSTER, CLUSTER_43, ORIGINAL, SHARED
from hedwig.cli.dev import DevServers
from hedwig.cli.dev.probes.zookeeper import transactions_of
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.store import format_metadata

__all__ = ["BOOKIES", "HEAP_MB", "JOURNALS", "METADATA", "HubServers"]

BOOKIES: Final = 3
HEAP_MB: Final = {
    "zookeeper": 1024,
    "bookie": 512,
    "bookie43": 512,
    "java-hedwig": 1024,
    "regionserver": 1024,
    "hbase-master": 384,
}
_HBASE: Final = {"hbase.regionserver.msginterval": "3000", "hbase.hregion.memstore.mslab.enabled": "true"}
_REGIONS: Final = 16
METADATA: Final = ("zookeeper", "hbase")

_FILES: Final = {"journalMaxSizeMB": "2048", "journalPreAllocSizeMB": "16", "journalMaxBackups": "5"}
_GATHERING: Final = {"journalAdaptiveGroupWrites": "true", "journalBufferedWritesThreshold": "524288"}
JOURNALS: Final[Mapping[str, Mapping[str, str]]] = {
    "quick": {**_FILES, **_GATHERING, "journalFlushWhenQueueEmpty": "true", "journalMaxGroupWaitMSec": "1"},
    "defaults-4.17": {**_FILES, **_GATHERING, "journalFlushWhenQueueEmpty": "false", "journalMaxGroupWaitMSec": "2"},
    "defaults-4.3": {
        **_FILES,
        **_GATHERING,
        "journalFlushWhenQueueEmpty": "false",
        "journalMaxGroupWaitMSec": "200",
    },
}
"""Settings for the journals of both releases: sync at once when nothing waits, or the defaults of one release.

Source: ServerConfiguration of BookKeeper 4.3.2. Its default is to gather for 200 ms or 512 KiB.
"""
_SAID: Final = {
    "quick": "synced at once when nothing more waits, gathered 1 ms at most",
    "defaults-4.17": "as by the defaults of 4.17: gathered for up to 2 ms, then synced",
    "defaults-4.3": "as by the defaults of 4.3.2: gathered for up to 200 ms or 512 KiB, then synced",
}
_OLD, _NEW = "bookie43", "bookie"
_KIND: Final = {SHARED: _NEW, CLUSTER: _NEW, CLUSTER_43: _OLD, ORIGINAL: _OLD}
_OURS: Final = {
    SHARED: ("bookkeeper.ledgers=shared",),
    CLUSTER: ("bookkeeper.ledgers=per-topic",),
    CLUSTER_43: ("bookkeeper.ledgers=per-topic", "bookkeeper.compat=4.3"),
}
"""The options in which our hubs differ."""
_OLD_ROOT: Final = "/ledgers"
_TOPICS_MAX: Final = 15_000
"""A bookie has a file for each ledger, and may keep 20,000 open. Before these can be used up there are new bookies."""


class HubServers:
    """Servers that are made anew for each round, and within it once cases have had many topics. `with` ends them.

    So data of one round, or of many topics, do not slow what follows.

    Its methods raise DevError and HedwigError if a server or a store does not come up, and BenchmarkError.
    """

    def __init__(
        self,
        on: Sequence[str],
        directory: Path,
        *,
        metadata: str,
        quorums: Quorums,
        journal: str,
        progress: Callable[[str], None],
    ) -> None:
        self._on = on
        self._directory = directory
        self._metadata = metadata
        self._quorums = quorums
        self._journal = journal
        self._progress = progress
        self._round: int | None = None
        self._topics = 0
        """How many topics the cases on these servers have had."""
        self._cases = itertools.count(1)
        properties = JOURNALS[journal]
        # The bookies of 4.3 prefer the virtual machine's system properties to their configuration file.
        system_properties = " ".join(f"-D{name}={value}" for name, value in properties.items())
        flags = flags_as_in_production(HEAP_MB)
        flags[_OLD] = f"{flags[_OLD]} {system_properties}"
        self.servers = DevServers(
            directory,
            progress=progress,
            heap_mb=HEAP_MB,
            java_flags=flags,
            hbase_properties=_HBASE,
            bookie_properties=properties,
            hub_properties={
                "bk_ensemble_size": str(quorums.ensemble),
                "bk_write_quorum_size": str(quorums.write),
                "bk_ack_quorum_size": str(quorums.ack),
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.servers.down()

    def begin(self, number: int, topics: int) -> bool:
        """Start the servers of a round for a case with so many topics, unless they run; return whether they are new."""
        self._topics += topics
        if number == self._round and self._topics <= _TOPICS_MAX:
            return False
        self._round = None
        self.servers.down()
        services = {
            "bookkeeper43" if _KIND[hub_kind] == _OLD else "bookkeeper" for hub_kind in self._on if hub_kind in _KIND
        }
        if self._metadata == "hbase" and self._ours:
            services.add("hbase")
        self.servers.up(["zookeeper", *sorted(services)], bookies=BOOKIES)
        for hub_kind in self._ours:
            asyncio.run(format_metadata(self._metadata_url(hub_kind), StoreOptions(regions=_REGIONS)))
        self._round, self._topics = number, topics
        return True

    def hub(self, hub_kind: str, directory: Path, settings: Sequence[str]) -> AnyHub:
        """Return a hub that is not started yet. Ours is in a cluster of its own, which no other hub has used."""
        if hub_kind == ORIGINAL:
            return OriginalHub(self.servers)
        zookeeper = self.servers.address("zookeeper")
        quorums = self._quorums
        own = [
            f"metadata={self._metadata_url(hub_kind)}",
            # Other hubs of a cluster believe for a while that a killed hub lives, so each case has its own cluster.
            f"cluster.zookeeper=zookeeper://{zookeeper}/bench-hubs/{next(self._cases)}",
            f"bookkeeper.zookeeper=zookeeper://{zookeeper}{_root(hub_kind)}",
            f"bookkeeper.ensemble={quorums.ensemble}",
            f"bookkeeper.write_quorum={quorums.write}",
            f"bookkeeper.ack_quorum={quorums.ack}",
            *_OURS[hub_kind],
        ]
        return HubProcess(directory, (*own, *settings))

    @property
    def with_ledgers(self) -> list[str]:
        """Return one kind of our hubs for each kind of bookie that runs: `ledgers` takes it."""
        kinds = dict.fromkeys(_KIND[hub_kind] for hub_kind in self._on if hub_kind in _KIND)
        return [{_NEW: CLUSTER, _OLD: CLUSTER_43}[kind] for kind in kinds]

    def ledgers(self, hub_kind: str) -> dict[str, Any]:
        """Return what the ledger client must know of the bookies, as a JSON object."""
        quorums = self._quorums
        return {
            "zookeeper": self.servers.address("zookeeper"),
            "root": _root(hub_kind),
            "quorums": [quorums.ensemble, quorums.write, quorums.ack],
            "is_original": hub_kind == CLUSTER_43,
        }

    def roles(self, hub_kind: str) -> dict[str, list[int]]:
        """Return the ids of the processes that work for a hub, by role."""
        wanted = {"bookies": (_KIND[hub_kind],), "stores": ("zookeeper", "regionserver")}
        running = [each for each in self.servers.status() if each.pid is not None]
        return {
            role: [each.pid for each in running if each.kind in kinds and each.pid is not None]
            for role, kinds in wanted.items()
        }

    def zookeeper_transactions(self) -> int:
        """Return how many transactions ZooKeeper has made."""
        return transactions_of(self.servers.port("zookeeper-1"))

    def jvm_flags(self) -> dict[str, list[str]]:
        """Return the flags of the virtual machines that run now, by kind of server. The original hub is a kind too."""
        return flags_of_servers(self.servers)

    def terms(self, drivers: Sequence[str]) -> dict[str, Any]:
        """Return the terms that hold for all numbers."""
        quorums, on = self._quorums, self._on
        terms: dict[str, Any] = {
            "hubs": "one at a time, a fresh process for each case, after a warm-up on other topics",
            "bookies": f"{BOOKIES}, all on the disk of the hub, new for each round and after {_TOPICS_MAX:,} topics",
            "an acknowledged message is": f"synced to the journals of {quorums.ack} bookies",
            "quorums": f"ensemble {quorums.ensemble}, write {quorums.write}, ack {quorums.ack}, of both hubs",
            "journals": _SAID[self._journal],
        }
        if CLUSTER in on:
            terms[CLUSTER] = "our hub on bookies 4.17, a ledger for each topic"
        if SHARED in on:
            terms[SHARED] = "our hub on bookies 4.17, one log for all topics"
        if CLUSTER_43 in on:
            terms[CLUSTER_43] = "our hub on bookies 4.3.2, compat 4.3"
        if ORIGINAL in on:
            terms[ORIGINAL] = "the Java hub 4.3.2 on the same bookies 4.3.2, else with its defaults"
        if LEDGERS in drivers:
            terms[LEDGERS] = "our ledger client alone, one ledger a topic, entries as large as messages"
        where = "ZooKeeper" if self._metadata == "zookeeper" else f"HBase, {_REGIONS} regions a table, not synced"
        heaps = [f"{kind} {HEAP_MB[kind]} MiB" for kind in dict.fromkeys(["zookeeper", *map(_KIND.get, on)]) if kind]
        if ORIGINAL in on:
            heaps.append(f"the original hub {HEAP_MB['java-hedwig']} MiB")
        return terms | {
            "metadata of our hub": where,
            "metadata of the original hub": "ZooKeeper",
            "ZooKeeper 3.9.4": "one server, its log synced",
            "heaps": ", ".join(heaps),
            "servers' virtual machines": AS_IN_PRODUCTION,
        }

    @property
    def _ours(self) -> list[str]:
        return [hub_kind for hub_kind in _OURS if hub_kind in self._on]

    def _metadata_url(self, hub_kind: str) -> str:
        """Return the URL of the store for a kind of hub. Kinds have other ledgers, so they must not share topics."""
        zookeeper = self.servers.address("zookeeper")
        name = re.sub("[^a-z0-9]", "_", f"bench_{hub_kind}")
        return f"hbase://{zookeeper}/{name}" if self._metadata == "hbase" else f"zookeeper://{zookeeper}/{name}/bench"


def _root(hub_kind: str) -> str:
    return LEDGERS_ROOT if _KIND[hub_kind] == _NEW else _OLD_ROOT
