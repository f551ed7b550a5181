"""The progress of a fill: how many records were made, how fast lately, and whether it has come to a standstill."""

from collections import deque
from typing import Final

from hedwig.benchmarks.load.recording import Second

__all__ = ["FillRate", "Seconds"]

_STANDSTILL_S: Final = 120
_STANDSTILL_SHARE: Final = 0.1
"""Share of the earlier rate. A server that forces its log, or collects its garbage once, recovers in time."""
_SLOW_SHARE: Final = 1 / 3
"""Share of the earlier rate below which a fill is over only if a heap is full: then the rate keeps falling."""
_SECONDS_MAX: Final = 2_000
"""Entries at most; each has a histogram of some 26 KB."""


class FillRate:
    """The records made in the last two minutes, and before. Seconds never go back.

    A caller that has seen a full heap of the store sets `has_full_heap`: the fill will not make many more records.
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
        """Return how many records were made per second, over at most the last two minutes."""
        self._forget(second - _STANDSTILL_S)
        return (self.count - self._before) / max(1, min(second, _STANDSTILL_S))

    def standstill(self, second: int) -> str | None:
        """Return why the fill is at a standstill: hardly any record is made, or few and with a full heap; else None.

        It compares the rate of the last seconds before `second` with the rate of all seconds before these. Those must
        be at least as many.
        """
        rates = self._rates(second)
        if rates is None or (not self.has_full_heap and rates[0] >= _STANDSTILL_SHARE * rates[1]):
            return None
        what = "its heap is full" if self.has_full_heap else "it came to a standstill"
        return f"{what}: {rates[0]:,.0f} records/s in the last {_STANDSTILL_S} s, and {rates[1]:,.0f}/s before that"

    def is_slow(self, second: int) -> bool:
        """Say whether the fill is so slow lately that the caller should check for a full heap."""
        rates = self._rates(second)
        return rates is not None and rates[0] < _SLOW_SHARE * rates[1]

    def _rates(self, second: int) -> tuple[float, float] | None:
        """Return the records per second lately, and before that; None while the time before is shorter."""
        since = second - _STANDSTILL_S
        if since < _STANDSTILL_S:
            return None
        self._forget(since)
        return (self.count - self._before) / _STANDSTILL_S, self._before / since

    def _forget(self, since: int) -> None:
        while self._recent and self._recent[0][0] < since:
            self._before += self._recent.popleft()[1]


class Seconds:
    """The records made in each second; once there are too many entries, in each two, four, eight … seconds.

    An entry has the number of its first second. There are at most `seconds_max` entries, and their width depends only
    on the last second. So a fill of hours takes no more memory than one of half an hour. Histograms are merged without
    loss.
    """

    def __init__(self, seconds_max: int = _SECONDS_MAX) -> None:
        self.series: dict[int, Second] = {}
        self.width = 1
        """The number of seconds that an entry covers by now."""
        self._seconds_max = seconds_max

    def note(self, second: int, records: int, took_us: int) -> None:
        """Count a batch that was made in a second."""
        entry = self._entry(second)
        entry.finished += records
        entry.response.record(took_us)

    def note_failed(self, second: int) -> None:
        """Count an attempt that failed in a second, even if the next one succeeds."""
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
