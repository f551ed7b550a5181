"""The ZooKeeper in which messages are znodes."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.jvm_flags import flags_of_servers
from hedwig.cli.dev import DevServers

__all__ = ["ZNODES_SAID", "ZnodePaths"]

_HEAP_MB: Final = 1024
ZNODES_SAID: Final = (
    f"no hub: one ZooKeeper 3.9.4, log forced to the disk, heap {_HEAP_MB} MiB, both compilers; a message is a znode "
    "in the queue of each subscriber, all made in one transaction; each subscriber a session, which takes and deletes"
)
_BOTH_COMPILERS: Final = "-XX:TieredStopAtLevel=4"


class ZnodePaths:
    """A fresh ZooKeeper that `with` starts and ends. Raises DevError - it does not come up."""

    def __init__(self, directory: Path) -> None:
        self._servers = DevServers(
            directory,
            progress=lambda _: None,
            heap_mb={"zookeeper": _HEAP_MB},
            java_flags={"zookeeper": _BOTH_COMPILERS},
        )

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._servers.down)
            self._servers.up(["zookeeper"])
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._servers.down()

    def jvm_flags(self) -> dict[str, list[str]]:
        """Return the flags of its virtual machine, by its kind."""
        return flags_of_servers(self._servers)

    @property
    def address(self) -> str:
        return self._servers.address("zookeeper")

    @property
    def pid(self) -> int:
        for server in self._servers.status():
            if server.pid is not None:
                return server.pid
        raise BenchmarkError("the ZooKeeper that this run started has ended")
