"""The real servers of a test run: started on first use, shared by all tests, ended with the run."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final, TypedDict

import pytest

from hedwig.cli.dev import DevError, DevServers

__all__ = ["UNSYNCED", "RunningServers", "servers"]

_HEAP_MB: Final = {"regionserver": 1024}
"""Every store of a test is some HBase regions more, of several hundred in a run."""
_HEAP_MB_ON_THREE: Final = {"regionserver": 768}
_BOOKIES: Final = 3
_FULL_HEAP_MB: Final = {**_HEAP_MB, "zookeeper": 2048}
"""ZooKeeper keeps every znode in memory: the whole package graph, and a topic of 100,000 subscriptions beside it."""


_PATIENT_MS: Final = 60_000
"""A session of ZooKeeper that a busy machine hardly ends: a region server whose session is over does not come back."""


class _Settings(TypedDict):
    zookeeper_properties: Mapping[str, str]
    bookie_properties: Mapping[str, str]


UNSYNCED: Final[_Settings] = {
    "zookeeper_properties": {"forceSync": "no"},
    "bookie_properties": {"journalSyncData": "false"},
}
"""Settings of dev servers for tests: these kill processes and no machine, so nothing needs to wait for the disk.

What a process wrote is in the file cache, and outlives it.
"""


class RunningServers:
    """Servers that start when a test first asks for them, and stay until the end of the run.

    A service that could not be started fails every test that needs it, without another attempt.
    """

    def __init__(self, directory: Path, heap_mb: Mapping[str, int] | None = None, *, region_servers: int = 1) -> None:
        hbase: dict[str, str] = {}
        if region_servers == 1:
            # Where there are several, tests wait for one to take over what another served.
            hbase["zookeeper.session.timeout"] = str(_PATIENT_MS)
        zookeeper = {**UNSYNCED["zookeeper_properties"], "maxSessionTimeout": str(_PATIENT_MS)}
        self.launcher = DevServers(
            directory,
            heap_mb=heap_mb,
            zookeeper_properties=zookeeper,
            hbase_properties=hbase,
            bookie_properties=UNSYNCED["bookie_properties"],
        )
        self._region_servers = region_servers
        self._on_three: RunningServers | None = None
        self._failed: dict[str, DevError] = {}
        self._up: set[str] = set()

    @property
    def on_three(self) -> "RunningServers":
        """The servers of another cluster, which has three region servers."""
        if self._on_three is None:
            directory = self.launcher.directory
            self._on_three = RunningServers(
                directory.with_name(f"{directory.name}-on-three"), _HEAP_MB_ON_THREE, region_servers=3
            )
        return self._on_three

    def down(self) -> None:
        """End all servers."""
        if self._on_three is not None:
            self._on_three.down()
        self.launcher.down()

    def address(self, service: str) -> str:
        """Return host:port of `service` (such as `zookeeper` or `hbase`), which runs and answers.

        Raises: DevError - it could not be started; the last lines of its log are a note of it.
        """
        if service in self._failed:
            raise self._failed[service]
        if service not in self._up:
            try:
                self.launcher.up([service], regionservers=self._region_servers, bookies=_BOOKIES)
            except DevError as error:
                self._failed[service] = error
                raise
            self._up.add(service)
        return self.launcher.address(service)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        type=Path,
        metavar="DIR",
        help="use the servers of `hedwig-admin dev --dir DIR`, and leave them running after this run",
    )


def _end_in_order(number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"ended by signal {number}", returncode=128 + number)


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServers]:
    """The servers of this run. A test that ends one starts it again."""
    kept: Path | None = request.config.getoption("--servers")
    if kept is not None:
        # Another cluster is started beside these on demand; it stays too.
        yield RunningServers(kept)
        return
    heap_mb = _FULL_HEAP_MB if request.config.getoption("--full") else _HEAP_MB
    running = RunningServers(tmp_path_factory.mktemp("servers") / "run", heap_mb)
    # Whoever ends a run that takes too long must not leave its servers behind.
    previous = signal.signal(signal.SIGTERM, _end_in_order)
    try:
        yield running
    finally:
        signal.signal(signal.SIGTERM, previous)
        running.down()
