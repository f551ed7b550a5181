"""How often a disk was told to put what its cache holds on its medium: the proof that a log is forced, or is not."""

import os
from pathlib import Path
from typing import Final

__all__ = ["FLUSHES", "flushes_of"]

FLUSHES: Final = "disk_flushes_per_s"
"""What the values of a measurement call them."""
_DEVICES: Final = Path("/sys/dev/block")
_FLUSHES: Final = 15
"""The field of a disk's `stat`, counted from 0, that has the flushes it carried out (Linux 5.5 and later)."""


def flushes_of(directory: Path, devices: Path = _DEVICES) -> int | None:
    """Return how often the disk of a directory was flushed since the machine started, by anybody.

    None: nobody counts that, as of a file system without a disk of its own, or of an old kernel.
    Source: Documentation/admin-guide/iostats.rst of Linux.
    """
    try:
        number = directory.stat().st_dev
        device = (devices / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
        if (device / "partition").exists():
            device = device.parent  # Flushes are counted for whole disks only.
        fields = (device / "stat").read_text().split()
    except OSError:
        return None
    return int(fields[_FLUSHES]) if len(fields) > _FLUSHES else None
