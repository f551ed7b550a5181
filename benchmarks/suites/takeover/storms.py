"""Takeover storms of several stores and sizes, in turn."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from hedwig.benchmarks.load.cases import Case
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.takeover.run import TakeoverRuns
from hedwig.benchmarks.suites.takeover.sizes import TakeoverSizes

__all__ = ["Storms"]


class Storms:
    """Runs storms of several stores and sizes, in any order; `with` ends the servers.

    Only one store has servers at a time. A storm on another store, or with other sizes, gets fresh servers.
    """

    def __init__(
        self,
        directory: Path,
        sizes: Mapping[tuple[str, int], TakeoverSizes],
        runs: Callable[[Path, TakeoverSizes], TakeoverRuns],
    ) -> None:
        """Prepare storms.

        Args: sizes - the sizes by the store of the metadata and the number of topics; runs - makes the runs of one
            store and size in a directory.
        """
        self._directory = directory
        self._sizes = sizes
        self._runs = runs
        self._present: TakeoverRuns | None = None
        self._folder = directory
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def measure(self, case: Case, number: int) -> Measurement:
        """Run the storm of a case as round `number`. An error becomes the measurement's wall."""
        sizes = self._sizes[case.on, case.workload.topics]
        if self._present is None or self._present.sizes != sizes:
            self._end()
            self._made += 1
            self._folder = self._directory / f"{sizes.metadata}-{sizes.topics}-{self._made}"
            self._folder.mkdir()
            self._present = self._runs(self._folder, sizes)
        return self._present.measure(case, number)

    def _end(self) -> None:
        if self._present is not None:
            self._present.close()
            self._present = None
            shutil.rmtree(self._folder, ignore_errors=True)
