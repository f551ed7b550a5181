"""The original Java hub behind the interface `AnyHub`. The launcher of dev servers runs it."""

import time
from types import TracebackType
from typing import Final, Self

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.launcher import ServerState
from hedwig.cli.dev.probes.zookeeper import children_of

__all__ = ["OriginalHub"]

_NAME: Final = "java-hedwig"
_BOOKIES: Final = 3
_HOSTS: Final = "/hedwig/standalone/hosts"
_FORGOTTEN_S: Final = 30.0
_LOOK_S: Final = 0.1


class OriginalHub:
    """The one original hub of a directory of servers, whose bookies run: an `AnyHub`."""

    def __init__(self, servers: DevServers) -> None:
        self._servers = servers

    @property
    def address(self) -> str:
        return self._servers.address(_NAME)

    @property
    def pid(self) -> int:
        try:
            return self._servers.pid(_NAME)
        except DevError as exc:
            raise BenchmarkError(f"the original hub has ended: {self.last_words()}") from exc

    @property
    def is_running(self) -> bool:
        return self._state() is ServerState.RUNNING

    def start(self) -> None:
        self._wait_forgotten()
        try:
            if self._state() is None:
                self._servers.up([_NAME], bookies=_BOOKIES)
            else:
                self._servers.start(_NAME)
        except DevError as exc:
            raise BenchmarkError(f"the original hub does not start: {exc}") from exc

    def stop(self) -> None:
        try:
            self._servers.stop(_NAME)
        except DevError as exc:
            raise BenchmarkError(f"the original hub does not stop: {exc}") from exc

    def last_words(self) -> str:
        lines = self._servers.log_path(_NAME).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # `stop` ends the hub in order and within a time limit. ZooKeeper then drops its nodes at once, and the next
        # hub need not wait for that.
        if self.is_running:
            self._servers.stop(_NAME)

    def _state(self) -> ServerState | None:
        return next((each.state for each in self._servers.status() if each.name == _NAME), None)

    def _wait_forgotten(self) -> None:
        """Wait until ZooKeeper has dropped the previous hub, which had the same address, and owned topics."""
        deadline = time.monotonic() + _FORGOTTEN_S
        while True:
            registered = children_of(self._servers.port("zookeeper-1"), _HOSTS)
            if not registered:
                return
            if time.monotonic() > deadline:
                raise BenchmarkError(f"ZooKeeper still has {registered[0]} after {_FORGOTTEN_S:g} s")
            time.sleep(_LOOK_S)
