"""Hours that pass in a moment, for samplers that run during them."""

import tracemalloc
from collections.abc import Callable
from typing import Final

__all__ = ["PassingHours"]

_SECOND_NS: Final = 1_000_000_000
_BEGAN_S: Final = 1_000.0


class PassingHours:
    """A clock that advances by `interval_s` with each sample; tests put it in place of a module's `time`.

    seconds: the time since the first sample. all_s: the time at the last one.
    """

    def __init__(self, interval_s: float, *, hours: float) -> None:
        self._interval_s = interval_s
        self._samples = round(hours * 3600 / interval_s) + 1
        self._taken = 0
        self.all_s = (self._samples - 1) * interval_s

    @property
    def seconds(self) -> float:
        return self._taken * self._interval_s

    def monotonic_ns(self) -> int:
        return round((_BEGAN_S + self.seconds) * _SECOND_NS)

    def moments_ns(self, *shares: float) -> list[int]:
        """Return the moments after these shares of the whole time."""
        return [round((_BEGAN_S + share * self.all_s) * _SECOND_NS) for share in shares]

    def pass_by(self, sample: Callable[[], None]) -> int:
        """Take all samples; return how many bytes they hold at the end."""
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for taken in range(self._samples):
                self._taken = taken
                sample()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return after - before
