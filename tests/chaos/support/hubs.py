"""The hubs of a cluster, each a process of its own on real servers, and the records that they write."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from hedwig.cli.dev import DevServers
from hedwig.cli.dev.ports import choose_port
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.metadata import StoreOptions, format_metadata
from tests.chaos.support.recorded_hub import RECORDS, ROUTES, process_name
from tests.faults.linearizability.support.recorder import read_recorded
from tests.faults.linearizability.support.versioned_register import CasOperation
from tests.hub.support.running import RunningHub

__all__ = ["SESSION_S", "Detour", "Hubs", "hubs_on"]

SESSION_S: Final = 6.0
"""How long the other hubs take a killed hub for alive."""

_REGIONS: Final = 3
_numbers: Final = itertools.count(1)

_SETTINGS: Final = (
    f"cluster.session_timeout_s={SESSION_S:g}",
    "cluster.placement=uniform",
    # A restarted hub is worth killing again only once it owns topics.
    "cluster.rebalance_interval_s=10",
    "cluster.rebalance_tolerance=0.3",
    "cluster.rebalance_topics_max=100",
    "operation_timeout_s=10",
    "bookkeeper.append_timeout_s=10",
    "consume_flush_s=2",
    "retention_interval_s=7",
    "repeat_window_s=30",  # Short, so that consumed messages are deleted during a run.
)


_OWN_LEDGERS: Final = ("bookkeeper.ledgers=per-topic",)
"""What one of the hubs has, so that topics go to and fro between shared logs and ledgers of their own."""


class Detour:
    """How one hub reaches its servers: ZooKeeper at `zookeeper`, and those at certain ports at other addresses."""

    def __init__(self, zookeeper: str, routes: Mapping[int, str]) -> None:
        self.zookeeper = zookeeper
        self.routes = routes


class Hubs:
    """Three hubs of one cluster, with names `hub-1` and so on, and metadata of their own. Methods block."""

    def __init__(
        self,
        stack: DevServers,
        directory: Path,
        settings: Sequence[str] = (),
        detours: Mapping[int, Detour] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        zookeeper = stack.address("zookeeper")
        self.number = next(_numbers)
        self.metadata = f"hbase://{zookeeper}/chaos{self.number}"
        self.prefix = f"/hedwig/chaos{self.number}"
        self.records = directory / "records"
        self.records.mkdir()
        self.hubs: dict[str, RunningHub] = {}
        self.pids: list[int] = []
        self.processes: dict[str, str] = {}
        """The hub address of each process, by the name of the process in the records."""
        source = random.Random()
        given = {setting.partition("=")[0] for setting in settings}
        common = [each for each in _SETTINGS if each.partition("=")[0] not in given]
        ports: set[int] = set()
        for number in range(3):
            detour = (detours or {}).get(number + 1) or Detour(zookeeper, {})
            port = choose_port(ports, source)
            ports.add(port)
            self.hubs[f"hub-{number + 1}"] = RunningHub(
                directory / f"hub-{number + 1}",
                f"port={port}",
                "admin_port=-1",
                f"metadata={self.metadata.replace(zookeeper, detour.zookeeper)}",
                f"cluster.zookeeper=zookeeper://{detour.zookeeper}{self.prefix}",
                f"bookkeeper.zookeeper=zookeeper://{detour.zookeeper}{LEDGERS_ROOT}",
                *common,
                *settings,
                *(_OWN_LEDGERS if number == 2 else ()),
                environment={RECORDS: str(self.records), ROUTES: json.dumps(detour.routes), **(environment or {})},
                module="tests.chaos.support.recorded_hub",
            )

    @property
    def addresses(self) -> list[str]:
        """The addresses of the hubs, as owner records and redirects have them."""
        return [hub.address for hub in self.hubs.values()]

    def name_of(self, address: str) -> str:
        """Return the name of the hub at an address."""
        return next(name for name, hub in self.hubs.items() if hub.address == address)

    def start(self, name: str) -> None:
        """Start a hub, and wait until it serves."""
        self.hubs[name].start()
        self.pids.append(self.hubs[name].pid)
        self.processes[process_name(self.hubs[name].pid)] = self.hubs[name].address

    def kill(self, name: str) -> None:
        """End a hub with SIGKILL."""
        self.hubs[name].kill()

    def pause(self, name: str) -> None:
        """Freeze a hub with SIGSTOP."""
        os.kill(self.hubs[name].pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a frozen hub."""
        os.kill(self.hubs[name].pid, signal.SIGCONT)

    def heal(self) -> None:
        """Resume frozen hubs, and start those that have ended."""
        for name, hub in self.hubs.items():
            if hub.is_running:
                self.resume(name)
            else:
                self.start(name)

    def calls(self) -> list[CasOperation]:
        """Return all calls on owner records by all processes of the hubs."""
        return read_recorded(sorted(self.records.glob("*.record")))

    def close(self) -> None:
        """End all hubs."""
        for hub in self.hubs.values():
            if hub.is_running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(hub.pid, signal.SIGCONT)
            hub.kill()


@asynccontextmanager
async def hubs_on(
    stack: DevServers,
    directory: Path,
    settings: Sequence[str] = (),
    detours: Mapping[int, Detour] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Hubs]:
    """Start three hubs with metadata of their own, and end them afterwards."""
    hubs = Hubs(stack, directory, settings, detours, environment)
    await format_metadata(hubs.metadata, StoreOptions(regions=_REGIONS, indexes_subscribers=True))
    try:
        await asyncio.gather(*(asyncio.to_thread(hubs.start, name) for name in hubs.hubs))
        yield hubs
    finally:
        await asyncio.to_thread(hubs.close)
