"""How filling a store goes: how much was made, how fast lately, and whether it has come to a standstill."""

from collections import deque
from typing import Final

from hedwig.benchmarks.load.recording import Second

__all__ = ["FillRate", "Seconds"]

_STANDSTILL_S: Final = 120
_STANDSTILL_SHARE: Final = 0.1
"""Of the rate of before: a server whose log is being forced, or that collects its garbage once, is back in time."""
_SLOW_SHARE: Final = 1 / 3
"""The same, of what is the end only if a heap is full: then it becomes less and less, for as long as one waits."""
_SECONDS_MAX: Final = 2_000
"""Each has a histogram, of some 26 KB."""


class FillRate:
    """What was made, told apart into what was made in the last two minutes and before. Seconds never go back.

    Who has seen that a heap of the store is full says so in `has_full_heap`: little more is to be expected then.
    """

    def __init__(self) -> None:
        self.count = 0
        self.has_full_heap = False
        self._before = 0
        self._recent: deque[list[int]] = deque()

    def note(self, second: int, records: int) -> None:
        """Count records that were made in a second."""
        self.count += records
        if self._recent and self._recent[-1][0] == second:
            self._recent[-1][1] += records
        else:
            self._recent.append([second, records])
        self._forget(second - _STANDSTILL_S)

    def per_s(self, second: int) -> float:
        """Return how many records were made a second, in the last two minutes at most."""
        self._forget(second - _STANDSTILL_S)
        return (self.count - self._before) / max(1, min(second, _STANDSTILL_S))

    def standstill(self, second: int) -> str | None:
        """Say that hardly anything is made any more, or little and with a full heap; else None.

        That is told from what was made in the last seconds before `second`, and from what was made in all seconds
        before these, which have to be as many.
        """
        rates = self._rates(second)
        if rates is None or (not self.has_full_heap and rates[0] >= _STANDSTILL_SHARE * rates[1]):
            return None
        what = "its heap is full" if self.has_full_heap else "it came to a standstill"
        return f"{what}: {rates[0]:,.0f} records/s in the last {_STANDSTILL_S} s, and {rates[1]:,.0f}/s before that"

    def is_slow(self, second: int) -> bool:
        """Say that so little is made lately that whoever can should look whether a heap is full."""
        rates = self._rates(second)
        return rates is not None and rates[0] < _SLOW_SHARE * rates[1]

    def _rates(self, second: int) -> tuple[float, float] | None:
        """Return how many records a second were made lately, and before that; None while that was not as long."""
        since = second - _STANDSTILL_S
        if since < _STANDSTILL_S:
            return None
        self._forget(since)
        return (self.count - self._before) / _STANDSTILL_S, self._before / since

    def _forget(self, since: int) -> None:
        while self._recent and self._recent[0][0] < since:
            self._before += self._recent.popleft()[1]


class Seconds:
    """What was made second by second; once there are too many, by two, four, eight … seconds, under the first one.

    So a fill of hours takes no more memory than one of half an hour: there are `seconds_max` entries at most, and their
    width follows from the last second alone. Histograms are added up, and lose nothing.
    """

    def __init__(self, seconds_max: int = _SECONDS_MAX) -> None:
        self.series: dict[int, Second] = {}
        self.width = 1
        """So many seconds stand together by now."""
        self._seconds_max = seconds_max

    def note(self, second: int, records: int, took_us: int) -> None:
        """Count a batch that was made in a second."""
        entry = self._entry(second)
        entry.finished += records
        entry.response.record(took_us)

    def note_failed(self, second: int) -> None:
        """Count an attempt that failed in a second, whatever becomes of the next one."""
        self._entry(second).failed += 1

    def _entry(self, second: int) -> Second:
        while second >= self._seconds_max * self.width:
            self._widen()
        first = second - second % self.width
        if first not in self.series:
            self.series[first] = Second()
        return self.series[first]

    def _widen(self) -> None:
        self.width *= 2
        wider: dict[int, Second] = {}
        for second, entry in self.series.items():
            first = second - second % self.width
            if first in wider:
                wider[first].add(entry)
            else:
                wider[first] = entry
        self.series = wider
