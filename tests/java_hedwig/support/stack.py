"""The original Hedwig 4.3.2: ZooKeeper, bookies, one hub, and its console, in a directory of their own."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers, ServerState
from hedwig.model import HubInfo
from tests.java_hedwig.support.hub_client import HubClient
from tests.support.servers import UNSYNCED

__all__ = ["HUB_PROPERTIES", "REGION_PATH", "JavaStack", "eventually"]

T = TypeVar("T")

REGION_PATH: Final = "/hedwig/standalone"
"""Where the hub keeps its metadata."""

HUB_PROPERTIES: Final = {
    "max_entries_per_ledger": "4",
    # The hub stores every consume at once,
    "consume_interval": "1",
    # and collects no closed ledger during the test.
    "messages_consumed_thread_run_interval": "3600000",
}
"""The settings that differ from the hub's defaults."""

_HUB: Final = "java-hedwig"
_TLS_PORT: Final = 9876  # The hub's default, which it announces even without a TLS listener.
_CAS_OWNERS: Final = "metadata_manager_based_topic_manager_enabled"
_DEADLINE_S: Final = 30.0
_LOG_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d .*")


class JavaStack:
    """The servers of one directory; `with` ends them and removes it."""

    def __init__(
        self,
        directory: Path,
        progress: Callable[[str], None] | None = None,
        *,
        bookies: int = 1,
        properties: Mapping[str, str] = HUB_PROPERTIES,
    ) -> None:
        """Start nothing yet. `properties` differ from the hub's defaults."""
        self.servers = DevServers(directory, progress=progress, **UNSYNCED)
        self._progress = progress
        self._directory = directory
        self._bookies = bookies
        self._properties = properties

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.servers.down()

    def start_stores(self) -> None:
        """Start ZooKeeper and the bookies."""
        self.servers.up(["bookkeeper43"], bookies=self._bookies)

    def start_hub(self, *, cas_owners: bool = False, changes: Mapping[str, str] | None = None) -> None:
        """Start the hub, for the first time or again, and wait until it answers.

        With `cas_owners` it keeps owner records by compare-and-set in persistent nodes, else in ephemeral ones.
        `changes` are properties for this run only. Each must be one of those given for all runs, since the launcher
        keeps what it is not given.
        """
        assert not (changes or {}).keys() - self._properties.keys(), "a later run would keep these properties"
        properties = {**self._properties, **(changes or {}), _CAS_OWNERS: str(cas_owners).lower()}
        launcher = DevServers(self._directory, progress=self._progress, hub_properties=properties)
        if any(server.name == _HUB for server in launcher.status()):
            launcher.start(_HUB)
        else:
            launcher.up([_HUB], bookies=self._bookies)

    def stop_hub(self) -> None:
        """Let the hub release its topics and end."""
        self.servers.stop(_HUB)

    def kill_hub(self) -> None:
        """End the hub as a crash does: its session, with its nodes, outlives it by some seconds."""
        self.servers.kill(_HUB)

    def pause_hub(self) -> None:
        """Freeze the hub; its connections stay open."""
        self.servers.pause(_HUB)

    def resume_hub(self) -> None:
        """Resume the paused hub."""
        self.servers.resume(_HUB)

    @property
    def hub_state(self) -> ServerState:
        """Return what the hub is doing."""
        return next(server.state for server in self.servers.status() if server.name == _HUB)

    def hub_log(self) -> str:
        """Return what the hub has logged so far."""
        return self.servers.log_path(_HUB).read_text(errors="replace")

    def client(self, timeout_s: float = _DEADLINE_S) -> HubClient:
        """Return a new connection to the hub."""
        return HubClient(self.servers.port(_HUB), timeout_s)

    @property
    def hub_port(self) -> int:
        """Return the port of the hub, which it keeps across restarts."""
        return self.servers.port(_HUB)

    @property
    def zookeeper(self) -> str:
        """Return host:port of ZooKeeper."""
        return self.servers.address("zookeeper")

    @property
    def metadata_url(self) -> str:
        """Return the URL of the hub's metadata."""
        return f"zookeeper://{self.zookeeper}{REGION_PATH}"

    @contextmanager
    def znodes(self) -> Iterator[KazooClient]:
        """Connect to ZooKeeper past the code under test."""
        client = KazooClient(self.zookeeper)
        try:
            client.start(timeout=_DEADLINE_S)
            yield client
        finally:
            client.stop()
            client.close()

    def hub_info(self, client: KazooClient) -> HubInfo:
        """Return the hub as owner records name it: its address and the creation zxid of its liveness node."""
        hub = HubInfo(host="127.0.0.1", port=self.hub_port, ssl_port=_TLS_PORT)
        return replace(hub, epoch=int(client.exists(f"{REGION_PATH}/hosts/{hub.address}").czxid))

    def console(self, *command: str) -> str:
        """Run one command of the original's admin console, and return what it prints."""
        server, client = self._directory / "console-server.conf", self._directory / "console-client.conf"
        server.write_text(f"zk_host={self.zookeeper}\nzk_timeout=6000\nregion={REGION_PATH.rpartition('/')[2]}\n")
        client.write_text(f"default_server_host=localhost:{self.hub_port}:-1\n")
        arguments = ["-server-cfg", str(server), "-client-cfg", str(client), *command]
        java, *rest = self.servers.java_command("hedwig43", "org.apache.hedwig.admin.console.HedwigConsole", arguments)
        headless = [
            "-Djline.terminal=jline.UnsupportedTerminal",
            "-Dfile.encoding=UTF-8",
            f"-Duser.home={self._directory}",
        ]
        try:
            ran = subprocess.run(
                [java, *headless, *rest],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=_DEADLINE_S,
                # Java encodes its arguments by the locale.
                env=os.environ | {"LC_ALL": "C.UTF-8"},
            )
        finally:
            server.unlink()
            client.unlink()
        lines = ran.stdout.decode().splitlines()
        return "\n".join(line for line in lines if _LOG_LINE.fullmatch(line) is None).strip()


def eventually(what: str, look: Callable[[], T | None]) -> T:
    """Return the first result of `look` that is neither None nor False; fail after half a minute without one."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        result = look()
        if result is not None and result is not False:
            return result
        assert time.monotonic() < deadline, f"not within {_DEADLINE_S:g} s: {what}"
        time.sleep(0.05)
