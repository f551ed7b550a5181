"""Prove that forced writes are seen where the disk counts them, and that what nobody counts is not taken for none."""

import os
from pathlib import Path

from benchmarks.disk_flushes import flushes_of

STAT_OF_LINUX_6 = "1263 69 363155 1375 49633 4688 544438 9396 0 3909 24512 2287 534 40660 403 {flushes} 958\n"
STAT_OF_LINUX_4 = "1263 69 363155 1375 49633 4688 544438 9396 0 3909 24512 2287 534 40660 403\n"


def _device(devices: Path, of: Path, stat: str) -> Path:
    """Make a folder as the kernel has them for the disk of a file, and return it."""
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
