"""Servers whose stores have a given number of topics. Each store is filled when a case first needs it."""

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.cases import MetadataCases
from hedwig.benchmarks.stores.dataset import FillTask
from hedwig.benchmarks.stores.servers import SYNCED, StoreServers
from hedwig.benchmarks.suites.hub.stored_sizes import StoredSizes

__all__ = ["StoredDataset"]

_HUBS: Final = "hubs"


class StoredDataset:
    """The servers of one step of one round. `stack` ends them.

    A topic is as hubs leave it when no client uses it: an empty record of ledger ranges, one subscription, no owner.
    Raises: DevError, HedwigError - servers or stores do not come up; BenchmarkError.
    """

    def __init__(
        self,
        directory: Path,
        backends: Sequence[str],
        sizes: StoredSizes,
        stack: ExitStack,
        progress: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._sizes = sizes
        self._progress = progress
        self._filled: dict[str, Measurement] = {}
        self._is_at_work = False
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        self.stores = StoreServers(
            directory / "servers",
            backends,
            heap_mb=sizes.heap_mb,
            durability=SYNCED,
            topics_max=max(sizes.topics),
            progress=progress,
        )
        stack.enter_context(self.stores)
        self.stores.up()

    def filled(self, backend: str, workload: Workload) -> Measurement:
        """Fill a store unless that was done; return the measurement of it, with a wall if it failed."""
        if backend not in self._filled:
            self._settle()
            topics = workload.topics
            task = FillTask(first=0, last=topics, subscribers=1, seconds_max=self._sizes.fill_max_s, is_released=True)
            self._progress(f"filling {backend} with {topics:,} topics")
            with MetadataCases(self.stores, sys.executable) as cases:
                self._is_at_work = True
                self._filled[backend] = cases.fill(backend, workload, task)
        return self._filled[backend]

    def ready(self, backend: str) -> dict[str, float]:
        """Start servers that have ended, wait until none still works on a fill, and return the time for the values.

        Raises: BenchmarkError - the store could not be filled; DevError.
        """
        if (wall := self._filled[backend].wall) is not None:
            raise BenchmarkError(f"the store could not be filled: {wall}")
        self.stores.mend(backend)
        return self._settle()

    def hub_directory(self, backend: str) -> Path:
        """Return where the standalone hub of a store keeps its messages. A store knows only one such hub."""
        return self._directory / _HUBS / backend

    def _settle(self) -> dict[str, float]:
        """Wait until the servers are idle after the last fill, since the stores share the processors."""
        if not self._is_at_work:
            return {}
        self._is_at_work = False
        self._progress("waiting until no server is at work")
        with MetadataCases(self.stores, sys.executable) as cases:
            return cases.settle()
