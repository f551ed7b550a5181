"""The servers that `hedwig-bench metadata` compares, on equal terms: the same heap in all, the same durability."""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.errors import BenchmarkError
from cli.dev import DevServers
from cli.dev.launcher import ServerState, ServerStatus
from metadata.backend import StoreOptions
from metadata.store import format_metadata

__all__ = [
    "BACKENDS",
    "HADOOP_3",
    "HEAP_MB_MIN",
    "RESTARTED",
    "SYNCED",
    "SYNCED_LOG",
    "UNSYNCED",
    "MetadataPlaces",
    "terms",
]

BACKENDS: Final = ("sqlite", "zookeeper", "hbase", "hbase+thrift")
"""Schemes of the metadata URLs that are measured."""
SYNCED: Final = "synced"
UNSYNCED: Final = "unsynced"

_REGIONS: Final = 16
_HBASE_ZOOKEEPER_MB: Final = 128
_MASTER_MB: Final = 256
_GATEWAY_MB: Final = 256
_REGION_SERVER_MB_MIN: Final = 384
HEAP_MB_MIN: Final = _HBASE_ZOOKEEPER_MB + _MASTER_MB + _GATEWAY_MB + _REGION_SERVER_MB_MIN

_BOTH_COMPILERS: Final = "-XX:TieredStopAtLevel=4"
"""Dev servers have the first compiler only, which starts sooner and makes slower code than a server in earnest runs."""
_SESSION_MS: Final = "40000"
_HBASE_DEFAULTS: Final = {
    "hbase.regionserver.msginterval": "3000",
    "hbase.hregion.memstore.mslab.enabled": "true",
    # At the dev servers' 4 s a busy machine is enough for a region server to be taken for dead.
    "zookeeper.session.timeout": _SESSION_MS,
}
SYNCED_LOG: Final = {"hbase.wal.hsync": "true", "hbase.unsafe.stream.capability.enforce": "true"}
_UNSYNCED_LOG: Final = {"hbase.wal.hsync": "false", "hbase.unsafe.stream.capability.enforce": "true"}
HADOOP_3: Final = "hbase-hadoop3"
_TAIL_BYTES: Final = 65_536
_SERVERS: Final[Mapping[str, str]] = {"zookeeper": "zookeeper", "hbase": "hbase", "hbase+thrift": "hbase"}
"""The folder of servers that a backend uses."""
_DATA_SERVER: Final[Mapping[str, str]] = {"zookeeper": "zookeeper-1", "hbase": "regionserver-1"}
RESTARTED: Final = tuple(_DATA_SERVER)
"""Backends whose server with the records is restarted; a gateway would only tell the same of the same server."""


class MetadataPlaces:
    """Fresh servers and stores for some backends; `with` ends them.

    heap_mb: of all virtual machines of a backend together: ZooKeeper's one server has it alone, HBase's region server
    what its master, its ZooKeeper and a Thrift gateway leave it. SQLite has none: it works in the client's process.
    Raises in its methods: DevError, HedwigError - a server or a store does not come up; BenchmarkError.
    """

    def __init__(
        self,
        directory: Path,
        backends: Sequence[str],
        *,
        heap_mb: int,
        durability: str,
        progress: Callable[[str], None],
    ) -> None:
        if heap_mb < HEAP_MB_MIN:
            raise BenchmarkError(f"a heap of {heap_mb} MiB is too small for HBase: give {HEAP_MB_MIN} MiB at least")
        self._directory = directory
        self._backends = backends
        synced = durability == SYNCED
        self._servers: dict[str, DevServers] = {}
        if "zookeeper" in backends:
            self._servers["zookeeper"] = DevServers(
                directory / "zookeeper",
                progress=progress,
                heap_mb={"zookeeper": heap_mb},
                java_flags={"zookeeper": _BOTH_COMPILERS},
                zookeeper_properties={} if synced else {"forceSync": "no"},
            )
        if any(_SERVERS.get(backend) == "hbase" for backend in backends):
            heaps = _hbase_heaps(backends, heap_mb)
            self._servers["hbase"] = DevServers(
                directory / "hbase",
                progress=progress,
                heap_mb=heaps,
                java_flags=dict.fromkeys(heaps, _BOTH_COMPILERS),
                # There is no gateway of this build; it writes no log itself.
                classpaths={"hbase-master": HADOOP_3, "regionserver": HADOOP_3},
                zookeeper_properties={"maxSessionTimeout": _SESSION_MS},
                hbase_properties=_HBASE_DEFAULTS | (SYNCED_LOG if synced else _UNSYNCED_LOG),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for servers in self._servers.values():
            servers.down()
        shutil.rmtree(self._directory, ignore_errors=True)

    def up(self) -> None:
        """Start the servers, and format an empty store of each backend."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if "zookeeper" in self._servers:
            self._servers["zookeeper"].up(["zookeeper"])
        if "hbase" in self._servers:
            self._servers["hbase"].up(["thrift2" if "hbase+thrift" in self._backends else "hbase"])
        for backend in self._backends:
            asyncio.run(format_metadata(self.url(backend), StoreOptions(regions=_REGIONS)))

    def url(self, backend: str) -> str:
        """Return where the store of a backend is; each has its own."""
        match backend:
            case "sqlite":
                return f"sqlite://{self._directory.absolute() / 'metadata.sqlite'}"
            case "zookeeper":
                return f"zookeeper://{self._servers['zookeeper'].address('zookeeper')}/bench/standalone"
            case "hbase":
                return f"hbase://{self._servers['hbase'].address('zookeeper')}/bench"
            case "hbase+thrift":
                return f"hbase+thrift://{self._servers['hbase'].address('thrift2')}/bench_thrift"
            case _:
                raise BenchmarkError(f"there is no backend {backend!r}: choose from {', '.join(BACKENDS)}")

    def roles(self, backend: str) -> dict[str, list[int]]:
        """Return the processes of the servers that work for a backend, by their kind."""
        found: dict[str, list[int]] = {}
        for server in self._status(backend):
            if server.pid is not None and (server.kind != "thrift2" or backend == "hbase+thrift"):
                found.setdefault(server.kind, []).append(server.pid)
        return found

    def disk_bytes(self, backend: str) -> int:
        """Return how much the store of a backend occupies, logs that a restart would read included."""
        if backend == "sqlite":
            places: Iterable[Path] = self._directory.glob("metadata.sqlite*")
        else:
            places = (self._servers[_SERVERS[backend]].directory / "data").rglob("*")
        return sum(_blocks_of(place) for place in places) * 512

    def restart(self, backend: str) -> None:
        """Kill the server with the records, and start it again without waiting until it answers."""
        servers = self._servers[_SERVERS[backend]]
        servers.kill(_DATA_SERVER[backend])
        servers.start(_DATA_SERVER[backend], wait=False)

    def ended(self, backend: str) -> list[str]:
        """Return which servers of a backend have ended, and why, as far as they said so."""
        dead = [server for server in self._status(backend) if server.state is ServerState.DEAD]
        return [f"{server.name} ended{_last_words(server.log)}" for server in dead]

    def mend(self, backend: str) -> None:
        """Start servers of a backend that have ended, and wait until they answer. Raises DevError - they do not."""
        for server in self._status(backend):
            if server.state is ServerState.DEAD:
                self._servers[_SERVERS[backend]].start(server.name)

    def jvm_flags(self) -> dict[str, list[str]]:
        """Return the flags of the virtual machines that run, by backend and kind of server."""
        return {
            f"{name}/{server.kind}": _flags_of(server.pid)
            for name, servers in self._servers.items()
            for server in servers.status()
            if server.pid is not None
        }

    def _status(self, backend: str) -> list[ServerStatus]:
        return self._servers[_SERVERS[backend]].status() if backend in _SERVERS else []


def terms(backends: Sequence[str], heap_mb: int, durability: str) -> str:
    """Return what is equal about the backends, and how."""
    is_synced = durability == SYNCED
    said = [
        "an acknowledged write is " + ("on the disk" if is_synced else "in the file cache, which outlives the server")
    ]
    said.append(f"{heap_mb:,} MiB of heap in all for each backend, no replicas")
    if "zookeeper" in backends:
        said.append(f"ZooKeeper 3.9.4: one server, {'log forced to the disk' if is_synced else 'forceSync=no'}")
    if any(_SERVERS.get(backend) == "hbase" for backend in backends):
        heaps = ", ".join(f"{kind} {size:,} MiB" for kind, size in _hbase_heaps(backends, heap_mb).items())
        synced = f"hbase.wal.hsync={'true' if is_synced else 'false'}"
        said.append(
            f"HBase 2.6.1-hadoop3: one region server, {_REGIONS} regions a table, {synced}, "
            f"session timeout {int(_SESSION_MS) // 1000} s, heaps {heaps}"
        )
    if "sqlite" in backends:
        said.append("SQLite: synchronous=FULL either way, no server, in the client's process")
    return "; ".join(said)


def _hbase_heaps(backends: Sequence[str], heap_mb: int) -> dict[str, int]:
    heaps = {"zookeeper": _HBASE_ZOOKEEPER_MB, "hbase-master": _MASTER_MB}
    if "hbase+thrift" in backends:
        heaps["thrift2"] = _GATEWAY_MB
    return heaps | {"regionserver": heap_mb - sum(heaps.values())}


def _flags_of(pid: int) -> list[str]:
    try:
        words = Path("/proc", str(pid), "cmdline").read_text().split("\0")
    except OSError:
        return []
    return [word for word in words if word.startswith("-X")]


def _last_words(log: Path) -> str:
    """Return what a virtual machine that ran out of memory said last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    told = [line.strip() for line in lines if "java.lang.OutOfMemoryError" in line]
    return f": {told[-1]}" if told else ""


def _blocks_of(place: Path) -> int:
    try:
        return place.lstat().st_blocks
    except OSError:
        return 0  # Logs come and go while the servers work.
