"""Prove that flushes are read where the disk counts them, and that uncounted flushes are not taken for none."""

import os
from pathlib import Path

import pytest

from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.machine.disk_flushes import FLUSHES, flushes_of
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.suites.metadata.flushes import flush_tables

STAT_OF_LINUX_6 = "1263 69 363155 1375 49633 4688 544438 9396 0 3909 24512 2287 534 40660 403 {flushes} 958\n"
STAT_OF_LINUX_4 = "1263 69 363155 1375 49633 4688 544438 9396 0 3909 24512 2287 534 40660 403\n"


def _device(devices: Path, of: Path, stat: str) -> Path:
    """Make a folder like the kernel's for the disk of a file, and return it."""
    number = of.stat().st_dev
    disk = devices / "disk"
    disk.mkdir(parents=True)
    (disk / "stat").write_text(stat)
    (devices / f"{os.major(number)}:{os.minor(number)}").symlink_to(disk)
    return disk


def test_flushes_of_a_disk(tmp_path: Path) -> None:
    _device(tmp_path / "block", tmp_path, STAT_OF_LINUX_6.format(flushes=15554112))
    assert flushes_of(tmp_path, tmp_path / "block") == 15554112


def test_flushes_of_a_partition_are_those_of_its_disk(tmp_path: Path) -> None:
    disk = _device(tmp_path / "block", tmp_path, STAT_OF_LINUX_6.format(flushes=7))
    part = disk / "disk1"
    part.mkdir()
    (part / "partition").write_text("1\n")
    (part / "stat").write_text(STAT_OF_LINUX_6.format(flushes=0))
    link = next(each for each in (tmp_path / "block").iterdir() if each.is_symlink())
    link.unlink()
    link.symlink_to(part)
    assert flushes_of(tmp_path, tmp_path / "block") == 7


def test_what_nobody_counts_is_unknown(tmp_path: Path) -> None:
    assert flushes_of(tmp_path, tmp_path / "block") is None
    _device(tmp_path / "block", tmp_path, STAT_OF_LINUX_4)
    assert flushes_of(tmp_path, tmp_path / "block") is None
    assert flushes_of(tmp_path / "missing") is None


def _load(on: str, driver: str, operation: Operation, flushes_per_s: float | None) -> Measurement:
    """Return a load of 500 operations a second, four seconds long."""
    workload = Workload(
        name=operation.value, mix={operation.value: 1.0}, topics=100, subscribers=1, rate_per_s=500.0, seconds=4.0
    )
    values = {} if flushes_per_s is None else {FLUSHES: flushes_per_s}
    return Measurement(
        workload=workload, driver=driver, on=on, round=1, count=2_000, offered=2_000, seconds=4.0, values=values
    )


def _result(flushes_per_sync: float | None, *loads: Measurement) -> Result:
    environment = {"disk_flushes_per_sync": flushes_per_sync}
    return Result(
        program="hedwig-bench metadata",
        started="2026-11-23 01:00:00 UTC",
        environment=environment,
        terms={},
        measurements=list(loads),
    )


def test_a_report_tells_which_changes_were_forced() -> None:
    loads = [
        _load("synced", "zookeeper", Operation.CLAIM, 400.0),
        _load("synced", "hbase", Operation.CLAIM, 450.0),
        _load("synced", "hbase", Operation.READ_OWNER, 0.0),
        _load("unsynced", "zookeeper", Operation.CLAIM, 0.0),
    ]
    (table,) = flush_tables(_result(1.0, *loads))
    assert list(table.lines[0]) == ["synced", "claim, 500/s offered", "ZooKeeper", "500", "400", "0.80"]
    assert len(table.lines) == len(loads)


@pytest.mark.parametrize("seen", [None, 0.0, 0.5])
def test_a_disk_that_does_not_count_its_flushes_proves_nothing(seen: float | None) -> None:
    assert flush_tables(_result(seen, _load("synced", "hbase", Operation.CLAIM, 0.0))) == []


def test_results_from_before_flushes_were_counted_say_nothing_of_them() -> None:
    assert flush_tables(_result(1.0, _load("synced", "hbase", Operation.CLAIM, None))) == []
