"""How often a disk was told to write its cache to its medium. This proves whether a log is forced to the disk."""

import os
from pathlib import Path
from typing import Final

__all__ = ["FLUSHES", "flushes_of"]

FLUSHES: Final = "disk_flushes_per_s"
"""The name of flushes in the values of a measurement."""
_DEVICES: Final = Path("/sys/dev/block")
_FLUSHES: Final = 15
"""The field of a disk's `stat`, counted from 0, with the number of completed flushes (Linux 5.5 and later)."""


def flushes_of(directory: Path, devices: Path = _DEVICES) -> int | None:
    """Return how often the disk of a directory was flushed since the machine started, by any process.

    None: the system does not count flushes, as for a file system without a disk of its own, or on an old kernel.
    Source: Documentation/admin-guide/iostats.rst of Linux.
    """
    try:
        number = directory.stat().st_dev
        device = (devices / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
        if (device / "partition").exists():
            device = device.parent  # The kernel counts flushes for whole disks only.
        fields = (device / "stat").read_text().split()
    except OSError:
        return None
    return int(fields[_FLUSHES]) if len(fields) > _FLUSHES else None
