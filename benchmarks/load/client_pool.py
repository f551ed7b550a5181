"""The clients of a benchmark run: one process for each driver or backend, which is kept for the next case."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from hedwig.benchmarks.load.generator_process import GeneratorProcess

__all__ = ["ClientPool"]

_OPEN_S: Final = 180.0


class ClientPool:
    """Clients by name; `start` starts each one, and it connects, when it is first needed. `with` ends them."""

    def __init__(self, start: Callable[[str], GeneratorProcess]) -> None:
        self._start = start
        self._kept: dict[str, tuple[GeneratorProcess, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._kept):
            self.end(name)

    def of(self, name: str) -> GeneratorProcess:
        """Return the client of that name, ready. Raises BenchmarkError - it failed, or was not ready in time."""
        if name not in self._kept:
            with ExitStack() as stack:
                client = stack.enter_context(self._start(name))
                client.hear("ready", time.monotonic() + _OPEN_S)
                self._kept[name] = client, stack.pop_all()
        return self._kept[name][0]

    def end(self, name: str) -> None:
        """End the client of that name, if there is one, even if it is busy."""
        if name in self._kept:
            _, stack = self._kept.pop(name)
            stack.close()
