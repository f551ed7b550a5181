"""The hubs under the Java client: ours, and the original as the yardstick."""

import time
from typing import Final, Protocol

from kazoo.client import KazooClient

from tests.support.servers import RunningServers

__all__ = ["Hub", "OriginalHub"]

_HOSTS: Final = "/hedwig/standalone/hosts"
_EXPIRY_S: Final = 30.0
_PAUSE_S: Final = 0.1


class Hub(Protocol):
    """A standalone hub that keeps its address and its data over restarts."""

    @property
    def address(self) -> str:
        """Return host:port."""
        ...

    def kill(self) -> None:
        """End it as a crash does."""
        ...

    def stop(self) -> None:
        """Ask it to end, and wait for its end."""
        ...

    def start(self) -> object:
        """Start it again, and wait until it serves."""
        ...


class OriginalHub:
    """The original Java hub among the servers of this run."""

    _NAME: Final = "java-hedwig"

    def __init__(self, servers: RunningServers) -> None:
        self.address = servers.address(self._NAME)
        self._launcher = servers.launcher

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._launcher.kill(self._NAME)

    def stop(self) -> None:
        """End it by SIGTERM."""
        self._launcher.stop(self._NAME)

    def start(self) -> None:
        """Start it again, once ZooKeeper has no node of the one before.

        If a topic still belongs to the one before, at the same address, the hub may never answer requests for it. In
        simple mode the Java client would then wait for ever.
        """
        zookeeper = KazooClient(self._launcher.address("zookeeper"))
        zookeeper.start(timeout=_EXPIRY_S)
        try:
            deadline = time.monotonic() + _EXPIRY_S
            while zookeeper.get_children(_HOSTS):
                assert time.monotonic() < deadline, "the session of the killed hub does not expire"
                time.sleep(_PAUSE_S)
        finally:
            zookeeper.stop()
            zookeeper.close()
        self._launcher.start(self._NAME)
