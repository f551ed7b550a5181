"""Prove that a short bounded load has the processor time of its servers, or none, but no invented one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from hedwig.benchmarks.load.workloads import Among, Operation, Workload
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.dataset import Dataset, FillTask
from hedwig.benchmarks.stores.servers import StoreServers

TOPICS = 200
OPERATIONS = 20_000
"""They take about half a second. In a tenth of that a busy machine may give the other process no processor."""
BURN = """
import sys
print("at work", flush=True)
while True:
    pass
"""


class _Stores:
    """A store in a file, and a process that stands for its server."""

    def __init__(self, directory: Path, servers: list[int]) -> None:
        self._directory = directory
        self._servers = servers

    def url(self, _: str) -> str:
        return f"sqlite://{self._directory / 'metadata.sqlite'}"

    def roles(self, _: str) -> dict[str, list[int]]:
        return {"server": self._servers}

    def idle(self, _: str) -> list[int]:
        return []

    def ended(self, _: str) -> list[str]:
        return []

    def disk_bytes(self, _: str) -> int:
        return 0

    def flushes(self) -> int | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *_: []


@pytest.fixture
def at_work() -> Iterator[int]:
    """Return a process that is always at work."""
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at work\n"
            yield process.pid
        finally:
            process.kill()


def _measured(directory: Path, servers: list[int]) -> Measurement:
    def named(name: str, operation: Operation, **changes: Any) -> Workload:
        return Workload(name=name, mix={operation.value: 1.0}, topics=TOPICS, subscribers=1, **changes)

    load = named(
        "read-owner",
        Operation.READ_OWNER,
        among=Among.OWNED,
        in_flight=4,
        operations=OPERATIONS,
        warmup_share=0.2,
        seconds=30.0,
    )
    stores = cast(StoreServers, _Stores(directory, servers))
    with MetadataCases(stores, sys.executable) as cases:
        filled = cases.fill("zookeeper", named("fill", Operation.CREATE), FillTask(first=0, last=TOPICS, subscribers=1))
        assert filled.wall is None, filled.wall
        measured = cases.measure("zookeeper", load, Dataset(topics=TOPICS, subscribers=1, drawn=10), 1)
    assert measured.wall is None, measured.wall
    assert measured.count > OPERATIONS / 2
    return measured


def test_a_short_load_has_what_its_server_used_inside(tmp_path: Path, at_work: int) -> None:
    measured = _measured(tmp_path, [at_work])
    # Other processes of the machine decide how much processor time it got.
    assert 0 < measured.values["servers_cpu_s"] < 1.1 * measured.seconds
    assert 0 < measured.values["client_cpu_s"] < 1.1 * measured.seconds
    assert measured.generator_cores == pytest.approx(measured.values["client_cpu_s"] / measured.seconds)


def test_what_a_server_used_that_is_gone_is_not_called_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    measured = _measured(tmp_path, [process.pid])
    assert "servers_cpu_s" not in measured.values
    assert "client_cpu_s" in measured.values
