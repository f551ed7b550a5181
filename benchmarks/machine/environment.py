"""The machine, the versions and the commit that a result holds for."""

import os
import platform
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from hedwig.benchmarks.machine.checkout import CHECKOUT
from hedwig.benchmarks.machine.disk_flushes import flushes_of
from hedwig.cli.dev import DevError
from hedwig.cli.dev.servers.java import find_java

__all__ = ["environment", "flushes_per_sync", "sync_rate"]

_LIBRARIES: Final = (
    "click",
    "happybase",
    "hdrhistogram",
    "kazoo",
    "msgpack",
    "protobuf",
    "rich",
    "thriftpy2",
    "uvloop",
)
_SYNC_S: Final = 2.0
_SYNCS: Final = 200
_BLOCK: Final = b"\1" * 4096


def environment(directory: Path) -> dict[str, Any]:
    """Return the environment that a result depends on, as JSON; `directory` is on the disk that hubs write to."""
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load_average": os.getloadavg()[0],
        "disk_syncs_per_s": sync_rate(directory),
        "disk_flushes_per_sync": flushes_per_sync(directory),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "java": _java(),
        "libraries": {name: version for name in _LIBRARIES if (version := _version(name)) is not None},
        "sqlite": _sqlite(),
        "commit": _git("rev-parse", "HEAD"),
        "is_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def sync_rate(directory: Path, seconds: float = _SYNC_S) -> float:
    """Return how many appends of 4 KiB per second the disk of a directory takes, each synced before the next."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        count = 0
        began = time.monotonic()
        while (took := time.monotonic() - began) < seconds:
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
            count += 1
    return count / took


def flushes_per_sync(directory: Path) -> float | None:
    """Return how many flushes the disk of a directory counts for each synced append, None if it counts none at all.

    The value is about 1 if the counter shows every sync. Loads that write need that as a proof of durability.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        if (before := flushes_of(directory)) is None:
            return None
        for _ in range(_SYNCS):
            file.write(_BLOCK)
            os.fdatasync(file.fileno())
        after = flushes_of(directory)
    return None if after is None else (after - before) / _SYNCS


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _java() -> str | None:
    try:
        said = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (DevError, OSError, subprocess.SubprocessError):
        return None
    return said.strip().splitlines()[-1] if said.strip() else None


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _sqlite() -> str:
    import sqlite3

    return sqlite3.sqlite_version


def _git(*arguments: str) -> str | None:
    """Return git's output about this checkout, None outside of one."""
    try:
        run = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()
