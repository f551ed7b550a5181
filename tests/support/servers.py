"""The real servers of a test run. They start on first use, all tests share them, and they end with the run."""

import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, TypedDict

import pytest

from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.servers.server_kind import SECURE

__all__ = ["UNSYNCED", "RunningServers", "own_servers", "servers"]

_HEAP_MB: Final = {"regionserver": 1024}
"""Every store of a test adds some HBase regions; a run has several hundred."""
_HEAP_MB_ON_THREE: Final = {"regionserver": 768}
_BOOKIES: Final = 3
_OPEN: Final = "open_servers"
_FULL_HEAP_MB: Final = {**_HEAP_MB, "zookeeper": 2048}
"""ZooKeeper keeps every znode in memory: the whole package graph, and a topic of 100,000 subscriptions."""


_PATIENT_MS: Final = 60_000
"""A ZooKeeper session that a busy machine hardly ends. A region server whose session has ended does not come back."""


class _Settings(TypedDict):
    zookeeper_properties: Mapping[str, str]
    bookie_properties: Mapping[str, str]


UNSYNCED: Final[_Settings] = {
    "zookeeper_properties": {"forceSync": "no"},
    "bookie_properties": {"journalSyncData": "false"},
}
"""Settings of dev servers for tests. Tests kill processes, not machines, so no server needs to wait for the disk.

The file cache holds what a process wrote, and outlives the process.
"""


class RunningServers:
    """Servers that start when a test first asks for them, and run until the end of the test run.

    If a service could not be started, every test that needs it fails, without another attempt to start it.
    """

    def __init__(
        self,
        directory: Path,
        heap_mb: Mapping[str, int] | None = None,
        *,
        region_servers: int = 1,
        is_secure: bool = False,
    ) -> None:
        """`is_secure`: the servers speak TLS only, and know their clients by what is in `stores_file`."""
        hbase: dict[str, str] = {}
        if region_servers == 1:
            # With several region servers, tests wait until one takes over the regions of another.
            hbase["zookeeper.session.timeout"] = str(_PATIENT_MS)
        zookeeper = {**UNSYNCED["zookeeper_properties"], "maxSessionTimeout": str(_PATIENT_MS)}
        self.launcher = DevServers(
            directory,
            heap_mb=heap_mb,
            zookeeper_properties=zookeeper,
            hbase_properties=hbase,
            bookie_properties=UNSYNCED["bookie_properties"],
        )
        if is_secure:
            self.launcher.up([], secure=True)
        self._region_servers = region_servers
        self._on_three: RunningServers | None = None
        self._failed: dict[str, DevError] = {}
        self._up: set[str] = set()

    @property
    def on_three(self) -> "RunningServers":
        """The servers of another cluster, with three region servers."""
        if self._on_three is None:
            directory = self.launcher.directory
            self._on_three = RunningServers(
                directory.with_name(f"{directory.name}-on-three"),
                _HEAP_MB_ON_THREE,
                region_servers=3,
                is_secure=bool(self.stores_file),
            )
        return self._on_three

    @property
    def stores_file(self) -> str:
        """The path of the file with what programs show to secure servers; empty if everybody may use the servers."""
        return str(self.launcher.stores_file or "")

    def beside(self, directory: Path) -> DevServers:
        """Return a launcher of servers that a module or a test has for itself. The same stores file is for them."""
        launcher = DevServers(directory, **UNSYNCED)
        if self.stores_file:
            launcher.up([])
            shutil.copytree(self.launcher.directory / SECURE, directory / SECURE)
        return launcher

    def down(self) -> None:
        """End all servers."""
        if self._on_three is not None:
            self._on_three.down()
        self.launcher.down()

    def address(self, service: str) -> str:
        """Return host:port of `service` (such as `zookeeper` or `hbase`), and start the service if it does not run.

        Raises: DevError - the service could not be started; a note of the error has the last lines of its log.
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


@contextmanager
def own_servers(factory: pytest.TempPathFactory) -> Iterator[RunningServers]:
    """Servers of a module that kills them. Those of the run have the tables of all tests before.

    A region server that comes back opens each of them, and on a busy machine that takes minutes.
    """
    running = RunningServers(factory.mktemp("servers") / "own")
    try:
        yield running
    finally:
        running.down()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        type=Path,
        metavar="DIR",
        help="use the servers of `hedwig-admin dev --dir DIR`, and leave them running after this run",
    )
    parser.addoption(
        "--secure",
        action="store_true",
        help="start secure servers. For tests/hub/cluster; those marked open_servers are left out",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need servers which let everybody in, if the run has secure ones."""
    if config.getoption("--secure") and (left_out := [item for item in items if item.get_closest_marker(_OPEN)]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _end_in_order(number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"ended by signal {number}", returncode=128 + number)


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServers]:
    """The servers of this run. A test that ends one starts it again."""
    kept: Path | None = request.config.getoption("--servers")
    if kept is not None:
        # The other cluster (`on_three`) starts on demand, and is left running too.
        yield RunningServers(kept)
        return
    heap_mb = _FULL_HEAP_MB if request.config.getoption("--full") else _HEAP_MB
    is_secure: bool = request.config.getoption("--secure")
    running = RunningServers(tmp_path_factory.mktemp("servers") / "run", heap_mb, is_secure=is_secure)
    # A SIGTERM that ends a run which takes too long must end its servers too.
    previous = signal.signal(signal.SIGTERM, _end_in_order)
    try:
        yield running
    finally:
        signal.signal(signal.SIGTERM, previous)
        running.down()
