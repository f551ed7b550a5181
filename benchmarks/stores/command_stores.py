"""The servers of the stores on which whole commands are measured. Their logs are not forced to the disk."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from hedwig.cli.dev import DevServers
from hedwig.metadata import StoreOptions

__all__ = ["BACKENDS", "HEAP_MB", "OPTIONS", "Progress", "store_servers"]

BACKENDS: Final = ("sqlite", "hbase", "zookeeper")
HEAP_MB: Final = {"zookeeper": 3072, "regionserver": 1536, "hbase-master": 384}
OPTIONS: Final = StoreOptions(operation_timeout_s=120.0, regions=16)
_BIG_TICKS: Final = {"forceSync": "no", "tickTime": "6000"}
"""Sessions may last two minutes, since a ZooKeeper with millions of nodes sometimes pauses to collect garbage."""

Progress = Callable[[str], None]


@contextmanager
def store_servers(
    backends: Sequence[str], directory: Path, *, progress: Progress
) -> Iterator[Callable[[str, str], str]]:
    """Start the servers that `backends` need, and end them; yield a function from backend and store name to URL.

    ZooKeeper has a server of its own, so that HBase's ZooKeeper does not hold a node for each topic.
    Raises: DevError - a server does not come up.
    """
    with ExitStack() as stack:
        addresses = {}
        for backend, services in (("zookeeper", ("zookeeper",)), ("hbase", ("zookeeper", "hbase"))):
            if backend in backends:
                servers = DevServers(
                    directory / backend,
                    progress=progress,
                    heap_mb=HEAP_MB if backend == "zookeeper" else {**HEAP_MB, "zookeeper": 256},
                    zookeeper_properties=_BIG_TICKS,
                    hbase_properties={"zookeeper.session.timeout": "120000"},
                )
                stack.callback(servers.down)
                servers.up(services)
                addresses[backend] = servers.address("zookeeper")

        def url(backend: str, name: str) -> str:
            match backend:
                case "sqlite":
                    return f"sqlite://{directory.absolute() / f'{name}.sqlite'}"
                case "hbase":
                    return f"hbase://{addresses[backend]}/{name}"
                case _:
                    return f"zookeeper://{addresses[backend]}/{name}/standalone"

        yield url
