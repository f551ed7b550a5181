"""Prove that a run of the metadata suite says how much disk it needs, and does not start on one that is too small."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.suites.metadata.disk_need import disk_need, disk_text
from hedwig.benchmarks.suites.metadata.sizes import SMOKE, USUAL, Stage, stages
from hedwig.benchmarks.suites.metadata.workloads import workload_files

GIB = 2**30


def _stages(topics: tuple[int, ...], *subscribers: int) -> list[Stage]:
    return stages(workload_files(), ["read-owner"], replace(USUAL, topics=topics, subscribers=subscribers), 1)


def test_need_is_that_of_the_largest_stage_with_all_its_stores() -> None:
    one, ten = _stages((10_000, 1_000_000), 1)[:1], _stages((10_000, 1_000_000), 10)[:1]
    assert disk_need([*one, *ten], ["hbase"]) == disk_need(ten, ["hbase"]) > 3 * disk_need(one, ["hbase"]) // 2
    assert disk_need(ten, ["hbase", "zookeeper"]) == disk_need(ten, ["hbase"]) + disk_need(ten, ["zookeeper"])
    assert disk_need([], ["hbase"]) == 0


def test_need_is_said_beside_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert (
        disk_text(tmp_path / "not" / "there", 5 * GIB)
        == "the servers' data need up to 5.0 GiB of disk; 5.0 GiB are free"
    )
    with pytest.raises(
        BenchmarkError, match=r"need about 6\.0 GiB of disk, and .* has 5\.0 GiB free: give fewer --topics"
    ):
        disk_text(tmp_path, 6 * GIB)


def test_smallest_run_needs_little_more_than_the_stores_themselves() -> None:
    need = disk_need(stages(workload_files(), ["read-owner"], SMOKE, 1), ["hbase"])
    assert GIB < need < 2 * GIB
