"""The stores that `hedwig-bench cas` measures, on servers that it starts, or at given URLs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.drivers.records.hbase_records import records_table
from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.disk_flushes import flushes_of
from hedwig.benchmarks.machine.jvm_flags import AS_IN_PRODUCTION, flags_as_in_production
from hedwig.benchmarks.stores.servers import HADOOP_3, SYNCED_HBASE
from hedwig.cli.dev import DevServers
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.store import format_metadata

__all__ = ["HEAP_MB", "Servers", "given_servers", "own_servers"]

HEAP_MB: Final = {"zookeeper": 1024, "regionserver": 3072, "hbase-master": 384, "thrift2": 512, "thrift1": 512}
_REGIONS: Final = 16
_FLUSHED: Final = "in the file cache of the region server's machine: it survives the server, not the machine"
_SERVICES: Final[Mapping[str, Sequence[str]]] = {
    "java": ("hbase",),
    "native": ("hbase",),
    "native-managers": ("hbase",),
    "gateway": ("hbase", "thrift2"),
    "gateway-managers": ("hbase", "thrift2"),
    "happybase": ("hbase", "thrift1"),
    "zookeeper-guarded": ("zookeeper",),
    "zookeeper-plain": ("zookeeper",),
    "sqlite": (),
}
_HBASE_DEFAULTS: Final = {"hbase.regionserver.msginterval": "3000", "hbase.hregion.memstore.mslab.enabled": "true"}
"""HBase's defaults for properties that dev servers change in order to start sooner and to be small.

With each report to the master a region server writes all calls that it is executing as text. At ten times the usual
rate of reports that takes a tenth of its processor time.
"""
_SERVERS: Final = {"hbase": "regionserver-1", "thrift2": "thrift2", "thrift1": "thrift1", "zookeeper": "zookeeper-1"}
"""The server of each service whose processor time counts."""


@dataclass(slots=True, kw_only=True)
class Servers:
    """Where each driver finds its store, the processes of the servers that work for it, and the terms of the stores."""

    of: dict[str, dict[str, str]] = field(default_factory=dict)
    pids: dict[str, list[int]] = field(default_factory=dict)
    terms: dict[str, Any] = field(default_factory=dict)
    directory: Path | None = None
    """Where the servers have their data; None if they are not ours."""

    def flushes(self) -> int | None:
        """Return how often the disk of the data was flushed so far; None if that is not known."""
        return None if self.directory is None else flushes_of(self.directory)


@contextmanager
def own_servers(
    drivers: Sequence[str], directory: Path, kept: Path | None, *, is_synced: bool, progress: Callable[[str], None]
) -> Iterator[Servers]:
    """Start the servers that the drivers need, format the stores, and in the end stop these servers.

    Args: directory - has the SQLite file, and the servers unless `kept` is given; kept - a directory of dev servers,
        which then keep running; is_synced - ZooKeeper and HBase force their logs to the disk.
    Raises: BenchmarkError, DevError, HedwigError - a server or a store does not come up.
    """
    dev_servers = DevServers(
        kept or directory / "servers",
        progress=progress,
        heap_mb=None if kept else HEAP_MB,
        java_flags=None if kept else flags_as_in_production(HEAP_MB),
        classpaths={"hbase-master": HADOOP_3, "regionserver": HADOOP_3} if is_synced and not kept else None,
        hbase_properties=None if kept else _HBASE_DEFAULTS | (SYNCED_HBASE if is_synced else {}),
        zookeeper_properties=None if kept or is_synced else {"forceSync": "no"},
    )
    try:
        wanted = {service for driver in drivers for service in _SERVICES[driver]}
        if wanted:
            dev_servers.up(sorted(wanted))
        servers = _servers_of(drivers, dev_servers, directory)
        if kept is not None:
            servers.terms = {"servers": f"those of {kept}, as they were started"}
        else:
            servers.terms = _terms(drivers, is_synced=is_synced)
        progress("formatting the stores")
        _format(servers)
        yield servers
    finally:
        if kept is None:
            dev_servers.down()


@contextmanager
def given_servers(drivers: Sequence[str], urls: Sequence[str]) -> Iterator[Servers]:
    """Use the stores at metadata URLs, and format those that are not formatted yet.

    Raises: BenchmarkError - none of the drivers has a store among them.
    """
    by_scheme: dict[str, str] = {}
    for url in urls:
        by_scheme[MetadataUrl.parse(url).scheme] = url
    servers = Servers(terms={"stores": list(urls), "durability": "as the servers given are set up"})
    for driver in drivers:
        location = _location(driver, by_scheme)
        if location is not None:
            servers.of[driver] = location
    if not servers.of:
        raise BenchmarkError(f"none of {', '.join(drivers)} can be measured at {', '.join(urls)}")
    _format(servers)
    yield servers


def _location(driver: str, urls: Mapping[str, str]) -> dict[str, str] | None:
    scheme = {
        "java": "hbase",
        "native": "hbase",
        "native-managers": "hbase",
        "gateway": "hbase+thrift",
        "gateway-managers": "hbase+thrift",
        "zookeeper-guarded": "zookeeper",
        "zookeeper-plain": "zookeeper",
        "sqlite": "sqlite",
    }.get(driver)
    if scheme is None or scheme not in urls:
        return None
    url = urls[scheme]
    if driver == "java":
        return _java_location(url)
    return {"url": url}


def _java_location(url: str) -> dict[str, str]:
    """Return where the Java client finds the cluster of an hbase:// URL.

    Raises: BenchmarkError - the URL does not name a ZooKeeper.
    """
    parsed = MetadataUrl.parse(url)
    if parsed.parameters.get("registry", "zookeeper") != "zookeeper":
        raise BenchmarkError(f"the Java client finds HBase by ZooKeeper, which {url} does not name")
    endpoints = parsed.endpoints(2181)
    return {
        "url": url,
        "hbase.zookeeper.quorum": ",".join(f"{host}:{port}" for host, port in endpoints),
        "zookeeper.znode.parent": parsed.parameters.get("znode", "/hbase"),
    }


def _servers_of(drivers: Sequence[str], dev_servers: DevServers, directory: Path) -> Servers:
    urls: dict[str, str] = {}
    wanted = {service for driver in drivers for service in _SERVICES[driver]}
    if "hbase" in wanted:
        urls["hbase"] = f"hbase://{dev_servers.address('zookeeper')}/bench"
    if "thrift2" in wanted:
        urls["hbase+thrift"] = f"hbase+thrift://{dev_servers.address('thrift2')}/bench"
    if "zookeeper" in wanted:
        urls["zookeeper"] = f"zookeeper://{dev_servers.address('zookeeper')}/bench/standalone"
    urls["sqlite"] = f"sqlite://{directory.absolute() / 'metadata.sqlite'}"
    servers = Servers(directory=directory)
    for driver in drivers:
        location = _location(driver, urls)
        if driver == "happybase":
            location = {
                "url": urls["hbase"],
                "address": dev_servers.address("thrift1"),
                "table": records_table(urls["hbase"]),
            }
        assert location is not None
        servers.of[driver] = location
        servers.pids[driver] = [dev_servers.pid(_SERVERS[service]) for service in _SERVICES[driver]]
    return servers


def _terms(drivers: Sequence[str], *, is_synced: bool) -> dict[str, Any]:
    services = {service for driver in drivers for service in _SERVICES[driver]}
    terms: dict[str, Any] = {}
    if "hbase" in services:
        heaps = ", ".join(f"{name} {HEAP_MB[name]} MiB" for name in ("regionserver", "thrift2", "thrift1"))
        terms["HBase 2.6.1"] = f"one region server, {_REGIONS} regions a table, SYNC_WAL, report interval as by default"
        terms["an acknowledged write in HBase is"] = (
            "on the disk, synced (the build for Hadoop 3)"
            if is_synced
            else f"{_FLUSHED} (the build for Hadoop 2 cannot sync to a local disk)"
        )
        terms["heap"] = heaps
    if "zookeeper" in services:
        where = "on the disk, synced" if is_synced else "in the file cache as well (forceSync=no)"
        terms["in ZooKeeper 3.9.4"] = f"{where}, one server, heap {HEAP_MB['zookeeper']} MiB"
    if "sqlite" in drivers:
        terms["in SQLite"] = "on the disk, synced, in the client's own process"
    return terms | {"servers' virtual machines": AS_IN_PRODUCTION}


def _format(servers: Servers) -> None:
    for url in dict.fromkeys(location["url"] for location in servers.of.values()):
        # All drivers of HBase share the tables of one namespace.
        asyncio.run(format_metadata(url, StoreOptions(regions=_REGIONS)))
