"""How much disk a run of `hedwig-bench metadata` needs. It is said before the run starts."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.suites.metadata.sizes import Stage
from hedwig.human_units import size_text

__all__ = ["disk_need", "disk_text"]

_BYTES_OF_A_RECORD: Final[Mapping[str, int]] = {
    "sqlite": 300,
    "zookeeper": 800,
    "hbase": 600,
    "hbase+index": 900,
    "hbase+thrift": 600,
}
"""The most that a store's folder had on disk for each record, rounded up, with old logs, snapshots and archives."""
_BYTES_OF_A_STORE: Final = 2**30
"""What the folder of a store has with few records, rounded up."""


def disk_need(stages: Sequence[Stage], backends: Sequence[str]) -> int:
    """Return about how many bytes of disk the servers of `stages` have at once at most.

    The stages run one after the other, and each removes its servers' files.
    """
    return max((_need_of(stage, backends) for stage in stages), default=0)


def disk_text(directory: Path, need: int) -> str:
    """Return in words what a run in `directory` needs and what is free.

    Raises: BenchmarkError - the disk does not have so much.
    """
    there = next(each for each in (directory, *directory.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if need > free:
        raise BenchmarkError(
            f"the servers' data need about {size_text(need)} of disk, and {directory} has {size_text(free)} free: give "
            "fewer --topics or --subscribers, or --run DIRECTORY on a larger disk"
        )
    return f"the servers' data need up to {size_text(need)} of disk; {size_text(free)} are free"


def _need_of(stage: Stage, backends: Sequence[str]) -> int:
    last = stage.steps[-1].topics
    records = FillTask(first=0, last=last, subscribers=stage.subscribers, wide=stage.wide).records
    return sum(_BYTES_OF_A_STORE + records * _BYTES_OF_A_RECORD[backend] for backend in backends)
