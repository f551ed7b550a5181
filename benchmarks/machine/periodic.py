"""Samples taken at an interval in a thread, beside a measurement."""

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Periodic"]


class Periodic(ABC):
    """Takes samples in `with`: at its beginning, every `interval_s`, and at its end."""

    def __init__(self, name: str, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._sample()

    def _run(self) -> None:
        while True:
            self._sample()
            if self._ended.wait(self._interval_s):
                return

    @abstractmethod
    def _sample(self) -> None:
        """Take one sample."""
