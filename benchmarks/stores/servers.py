"""The servers that `hedwig-bench metadata` compares, on equal terms: the same total heap, the same durability."""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.interrupts import interrupt_later
from hedwig.benchmarks.machine.disk_flushes import flushes_of
from hedwig.benchmarks.machine.heaps import HEAP_MB_MIN, hbase_heaps
from hedwig.benchmarks.machine.jvm_flags import flags_as_in_production, flags_of_servers
from hedwig.benchmarks.machine.jvm_heap import (
    find_jcmd,
    full_heap,
    heap_max_bytes,
    live_heap_bytes,
    out_of_memory,
    used_heap_bytes,
)
from hedwig.benchmarks.machine.sampling import usage_of
from hedwig.benchmarks.machine.store_files import disk_bytes, occupied
from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.launcher import ServerState, ServerStatus
from hedwig.errors import HedwigError
from hedwig.metadata.contract.backend import StoreOptions, regions_for
from hedwig.metadata.store import format_metadata

__all__ = [
    "BACKENDS",
    "HADOOP_3",
    "LASTING_HBASE",
    "LASTING_SESSIONS",
    "RESTARTED",
    "SYNCED",
    "SYNCED_LOG",
    "UNSYNCED",
    "UNSYNCED_LOG",
    "StoreServers",
    "children_max",
    "terms",
]

BACKENDS: Final = ("sqlite", "zookeeper", "hbase", "hbase+index", "hbase+thrift")
"""Schemes of the metadata URLs that are measured."""
SYNCED: Final = "synced"
UNSYNCED: Final = "unsynced"

_SESSION_MS: Final = "40000"
LASTING_SESSIONS: Final = {"maxSessionTimeout": _SESSION_MS}
"""The property that the ZooKeeper of an HBase needs for the sessions of `LASTING_HBASE`."""
LASTING_HBASE: Final = {"zookeeper.session.timeout": _SESSION_MS}
"""The dev servers have 4 s. With that, one collection of a large heap can end a region server's session, and with it
the server."""
_LOG_PROVIDER: Final = "filesystem"
"""Not the default, `asyncfs`, which is made for HDFS. On local files that forced the log nearly twice as often, and
made about 0.6 times as many subscriptions per second."""
_HBASE_DEFAULTS: Final = {
    "hbase.wal.provider": _LOG_PROVIDER,
    "hbase.regionserver.msginterval": "500",
    "hbase.hregion.memstore.mslab.enabled": "true",
    **LASTING_HBASE,
}
SYNCED_LOG: Final = {"hbase.wal.hsync": "true", "hbase.unsafe.stream.capability.enforce": "true"}
SYNCED_HBASE: Final = {"hbase.wal.provider": _LOG_PROVIDER, **SYNCED_LOG}
UNSYNCED_LOG: Final = {"hbase.wal.hsync": "false", "hbase.unsafe.stream.capability.enforce": "true"}
HADOOP_3: Final = "hbase-hadoop3"
_SERVERS: Final[Mapping[str, str]] = {
    "zookeeper": "zookeeper",
    "hbase": "hbase",
    "hbase+index": "hbase",
    "hbase+thrift": "hbase",
}
"""The folder of servers that a backend uses."""
_DATA_SERVER: Final[Mapping[str, str]] = {"zookeeper": "zookeeper-1", "hbase": "regionserver-1"}
RESTARTED: Final = tuple(_DATA_SERVER)
"""Backends whose server with the records is restarted. A gateway would only show the same server again."""


class StoreServers:
    """Fresh servers and stores for some backends; `with` ends them.

    heap_mb: the heap of all virtual machines of a backend together. ZooKeeper's only server gets all of it. HBase's
        region server gets the rest after its master, its ZooKeeper and a Thrift gateway. SQLite has none: it works in
        the client's process.
    topics_max: the number of topics that a store will have at most.
    Raises in its methods: DevError, HedwigError - a server or a store does not come up; BenchmarkError.
    """

    def __init__(
        self,
        directory: Path,
        backends: Sequence[str],
        *,
        heap_mb: int,
        durability: str,
        topics_max: int,
        progress: Callable[[str], None],
    ) -> None:
        if heap_mb < HEAP_MB_MIN:
            raise BenchmarkError(f"a heap of {heap_mb} MiB is too small for HBase: give {HEAP_MB_MIN} MiB at least")
        self._directory = directory
        self._backends = backends
        self._topics_max = topics_max
        self._progress = progress
        self._over: set[str] = set()
        synced = durability == SYNCED
        self._servers: dict[str, DevServers] = {}
        if "zookeeper" in backends:
            self._servers["zookeeper"] = DevServers(
                directory / "zookeeper",
                progress=progress,
                heap_mb={"zookeeper": heap_mb},
                java_flags=flags_as_in_production({"zookeeper": heap_mb}),
                zookeeper_properties={} if synced else {"forceSync": "no"},
            )
        if any(_SERVERS.get(backend) == "hbase" for backend in backends):
            heaps = hbase_heaps(heap_mb, has_gateway=_has_gateway(backends))
            self._servers["hbase"] = DevServers(
                directory / "hbase",
                progress=progress,
                heap_mb=heaps,
                java_flags=flags_as_in_production(heaps),
                # This build has no gateway. The gateway writes no log itself, so its build does not matter.
                classpaths={"hbase-master": HADOOP_3, "regionserver": HADOOP_3},
                zookeeper_properties=LASTING_SESSIONS,
                hbase_properties=_HBASE_DEFAULTS | (SYNCED_LOG if synced else UNSYNCED_LOG),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove(self._servers.values())

    def up(self) -> None:
        """Start the servers, and format an empty store of each backend."""
        if lost := self.up_each():
            raise BenchmarkError("; ".join(f"{backend}: {why}" for backend, why in lost.items()))

    def up_each(self) -> dict[str, str]:
        """Start the servers, and format an empty store of each backend.

        Returns: backends that cannot have a store, since a server or the store does not come up, and why. Their servers
            that did start are ended.
        """
        self.clear()
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._servers:
            find_jcmd()  # Fail now rather than at its first use.
        lost: dict[str, str] = {}
        for name, servers in self._servers.items():
            kind = "thrift2" if "hbase+thrift" in self._backends and name == "hbase" else name
            try:
                servers.up([kind])
            except DevError as exc:
                if not servers.status():
                    raise  # No server was started, so it is not one of them that failed.
                lost |= {backend: str(exc) for backend in self._backends if _SERVERS.get(backend) == name}
        for backend in self._backends:
            if backend not in lost:
                try:
                    asyncio.run(format_metadata(self.url(backend), self._format_options(backend)))
                except HedwigError as exc:
                    lost[backend] = f"no store could be laid out: {exc}"
        for backend in lost:
            self.end(backend)
        return lost

    def _format_options(self, backend: str) -> StoreOptions:
        return StoreOptions(regions=regions_for(self._topics_max), indexes_subscribers=backend == "hbase+index")

    def clear(self) -> None:
        """End the servers and remove the files of a killed run, whose records would pass for those of this run."""
        if self._directory.exists():
            self._progress(f"removing what an earlier run left in {self._directory}")
            self._remove([DevServers(self._directory / name) for name in sorted(set(_SERVERS.values()))])
        if self._directory.exists():
            raise BenchmarkError(f"cannot remove {self._directory}, which an earlier run left: remove it")

    def end(self, backend: str) -> None:
        """End the servers of a backend that is not needed any more, unless another backend needs them."""
        self._over.add(backend)
        name = _SERVERS.get(backend)
        if name is not None and all(each in self._over for each in self._backends if _SERVERS.get(each) == name):
            with interrupt_later():
                self._servers[name].down()

    def _remove(self, groups: Iterable[DevServers]) -> None:
        """End all servers, even if one of them fails to end, and remove their files and the stores; defer Ctrl-C."""
        with interrupt_later():
            with ExitStack() as stack:
                for servers in groups:
                    stack.callback(servers.down)
            # Not reached if a server did not end: the next run finds it by its files here.
            shutil.rmtree(self._directory, ignore_errors=True)

    def url(self, backend: str) -> str:
        """Return the URL of a backend's store; each backend has its own."""
        match backend:
            case "sqlite":
                return f"sqlite://{self._directory.absolute() / 'metadata.sqlite'}"
            case "zookeeper":
                address = self._servers["zookeeper"].address("zookeeper")
                return f"zookeeper://{address}/bench/standalone?children_max={children_max(self._topics_max)}"
            case "hbase":
                return f"hbase://{self._servers['hbase'].address('zookeeper')}/bench"
            case "hbase+index":
                return f"hbase://{self._servers['hbase'].address('zookeeper')}/bench_index"
            case "hbase+thrift":
                return f"hbase+thrift://{self._servers['hbase'].address('thrift2')}/bench_thrift"
            case _:
                raise BenchmarkError(f"there is no backend {backend!r}: choose from {', '.join(BACKENDS)}")

    def roles(self, backend: str) -> dict[str, list[int]]:
        """Return the processes of the servers that work for a backend, by their kind."""
        pids: dict[str, list[int]] = {}
        for server in self._status(backend):
            if server.pid is not None and (server.kind != "thrift2" or backend == "hbase+thrift"):
                pids.setdefault(server.kind, []).append(server.pid)
        return pids

    def idle(self, backend: str) -> list[int]:
        """Return the processes of all servers that do not work for a backend."""
        at_work = {pid for pids in self.roles(backend).values() for pid in pids}
        return [pid for pid in self.servers() if pid not in at_work]

    def servers(self) -> list[int]:
        """Return the processes of all servers."""
        status = (server for servers in self._servers.values() for server in servers.status())
        return [server.pid for server in status if server.pid is not None]

    def disk_bytes(self, backend: str) -> int:
        """Return how many bytes of disk the store of a backend occupies: those a restart would read, logs included."""
        if backend == "sqlite":
            return sum(map(occupied, self._directory.glob("metadata.sqlite*")))
        return disk_bytes(self._servers[_SERVERS[backend]].directory / "data")

    def flushes(self) -> int | None:
        """Return how often the disk of all stores was flushed so far, None if the system does not count that."""
        return flushes_of(self._directory)

    def live_heaps(self, backend: str) -> dict[str, int]:
        """Have a backend's servers collect their garbage, and return the remaining bytes by kind of server.

        Raises: BenchmarkError - one did not do so in time.
        """
        return {kind: sum(map(live_heap_bytes, pids)) for kind, pids in self.roles(backend).items()}

    def restart(self, backend: str) -> None:
        """Kill the server with the records, and start it again without waiting until it answers."""
        servers = self._servers[_SERVERS[backend]]
        servers.kill(_DATA_SERVER[backend])
        servers.start(_DATA_SERVER[backend], wait=False)

    def ended(self, backend: str) -> list[str]:
        """Return which servers of a backend have ended, and why, as far as their logs show it."""
        dead = [server for server in self._status(backend) if server.state is ServerState.DEAD]
        return [f"{server.name} ended{_last_words(server.log)}" for server in dead]

    def out_of_memory(self, backend: str) -> list[str]:
        """Return the lines about a full heap in the logs of a backend's servers that still live."""
        living = [server for server in self._status(backend) if server.pid is not None]
        return [f"{server.name} lives, but said {line}" for server in living for line in out_of_memory(server.log)]

    def full_heaps(self, backend: str) -> list[str]:
        """Return which servers of a backend live with a full heap, as far as they answer."""
        sentences = []
        for server in self._status(backend):
            if server.pid is not None:
                with suppress(BenchmarkError):
                    if (full := full_heap(server.pid)) is not None:
                        sentences.append(f"{server.name} lives, and its heap is full: {full}")
        return sentences

    def memory(self, backend: str) -> list[dict[str, Any]]:
        """Return the name, memory and heap of each server of a backend that lives, in bytes.

        heap_used_bytes: garbage included; None if the server did not answer in time, as when its collector never ends.
        """
        return [_memory_of(server.name, server.pid) for server in self._status(backend) if server.pid is not None]

    def mend(self, backend: str) -> None:
        """Start the ended servers of a backend, and wait until they answer. Raises DevError - they do not."""
        for server in self._status(backend):
            if server.state is ServerState.DEAD:
                self._servers[_SERVERS[backend]].start(server.name)

    def jvm_flags(self) -> dict[str, list[str]]:
        """Return the flags of the running machines by backend and kind of server, without the paths they write to."""
        return {
            f"{name}/{kind}": flags
            for name, servers in self._servers.items()
            for kind, flags in flags_of_servers(servers).items()
        }

    def _status(self, backend: str) -> list[ServerStatus]:
        return self._servers[_SERVERS[backend]].status() if backend in _SERVERS else []


def children_max(topics_max: int) -> int:
    """Return how many names a ZooKeeper listing may return: twice the topics, since wide topics lie beside them."""
    return max(StoreOptions().children_max, 2 * topics_max)


def terms(backends: Sequence[str], heap_mb: int, durability: str, topics_max: int) -> str:
    """Return the terms in words: what is equal between the backends, what is not, and how each one is reached."""
    is_synced = durability == SYNCED
    said = [
        "an acknowledged write is " + ("on the disk" if is_synced else "in the file cache, which outlives the server")
    ]
    said.append(f"{heap_mb:,} MiB of heap in all for each backend, no replicas")
    if "zookeeper" in backends:
        said.append(f"ZooKeeper 3.9.4: one server, {'log forced to the disk' if is_synced else 'forceSync=no'}")
        said.append(_reached_zookeeper())
    if any(_SERVERS.get(backend) == "hbase" for backend in backends):
        shared_out = hbase_heaps(heap_mb, has_gateway=_has_gateway(backends))
        heaps = ", ".join(f"{kind} {size:,} MiB" for kind, size in shared_out.items())
        synced = f"hbase.wal.hsync={'true' if is_synced else 'false'}, hbase.wal.provider={_LOG_PROVIDER}"
        said.append(
            f"HBase 2.6.1-hadoop3: one region server, {regions_for(topics_max)} regions a table, {synced}, "
            f"session timeout {int(_SESSION_MS) // 1000} s, heaps {heaps}"
        )
    if {"hbase", "hbase+index"} & set(backends):
        said.append(_REACHED_HBASE)
    if "hbase+index" in backends:
        said.append("hbase+index: the same with an index of subscriptions by subscriber, as metadata format makes it")
    if "sqlite" in backends:
        said.append("SQLite: synchronous=FULL either way, no server, in the client's process")
    return "; ".join(said)


def _reached_zookeeper() -> str:
    return (
        f"ZooKeeper is reached: through kazoo {version('kazoo')}, a library in pure Python with threads of its own, "
        "a read is two requests sent together (exists of the parent, get), an update a transaction of two (check of "
        "the parent, set), creates and deletes of the same moment share transactions, single operations of many "
        "callers are gathered by us as hubs gather them, children_max in the URL is twice the most topics of the run, "
        f"at least {StoreOptions().children_max:,}"
    )


_REACHED_HBASE: Final = (
    "HBase is reached: through our own client of its RPC in asyncio, without threads or a library between, a read is "
    "one request, an update one conditional mutation, single operations of many callers are gathered by us as hubs "
    "gather them, those for one server share calls, and writes of one HBase region one entry of its log"
)


def _has_gateway(backends: Sequence[str]) -> bool:
    return "hbase+thrift" in backends


def _last_words(log: Path) -> str:
    """Return the last line of a log that reports a full heap, as the end of a sentence; empty if there is none."""
    lines = out_of_memory(log)
    return f": {lines[-1]}" if lines else ""


def _memory_of(name: str, pid: int) -> dict[str, Any]:
    try:
        used: int | None = used_heap_bytes(pid)
    except BenchmarkError:
        used = None
    usage = usage_of(pid)
    return {
        "server": name,
        "rss_bytes": None if usage is None else usage.rss_bytes,
        "heap_max_bytes": heap_max_bytes(pid),
        "heap_used_bytes": used,
    }
