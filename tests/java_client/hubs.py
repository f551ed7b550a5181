"""The hubs that the Java client is tried on: ours, and the original as the yardstick."""

from typing import Final, Protocol

from tests.servers import RunningServers

__all__ = ["Hub", "OriginalHub"]


class Hub(Protocol):
    """A standalone hub that keeps its address and its data when it is ended and started again."""

    @property
    def address(self) -> str:
        """Return host:port."""
        ...

    def kill(self) -> None:
        """End it as a crash does."""
        ...

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        ...

    def start(self) -> object:
        """Start it again, and wait until it serves."""
        ...


class OriginalHub:
    """The original Java hub of this run's servers."""

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
        """Start it again."""
        self._launcher.start(self._NAME)
