"""Latency histograms: recorded as whole microseconds, merged without loss, kept as text.

They are HDR histograms. The records of several processes or rounds are added bucket by bucket, so no percentile is ever
an average of percentiles. The text is the compressed V2 encoding in base64, which HdrHistogram's libraries of all
languages read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Self

from hedwig.extras import needed

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

__all__ = ["PERCENTILES", "Histogram"]

PERCENTILES: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""The percentiles in a report's table of response times, beside the largest value."""

_US_MAX: Final = 3_600_000_000


class Histogram:
    """Counts of times from 1 µs to 1 hour, each value true to `digits` decimal digits; longer times count as an hour.

    Raises: MissingExtraError - the library is not installed.
    """

    __slots__ = ("_counts",)

    def __init__(self, digits: int = 3) -> None:
        self._counts: HdrHistogram = _library()(1, _US_MAX, digits)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Read the text that `encode` returned. Raises ValueError if it is no such text."""
        made = cls.__new__(cls)
        try:
            made._counts = _library().decode(text)
        except Exception as exc:  # The library raises errors of binascii, of zlib, and its own.
            raise ValueError(f"not the text of a histogram: {text[:32]!r}: {exc}") from exc
        return made

    @classmethod
    def merged(cls, parts: Iterable["Histogram"]) -> "Histogram":
        """Return the sum of histograms, which must all have the same `digits`."""
        total: Histogram | None = None
        for part in parts:
            if total is None:
                total = Histogram(part._counts.significant_figures)
            total.add(part)
        return total or cls()

    def encode(self) -> str:
        """Return the histogram as text."""
        encoded: bytes = self._counts.encode()
        return encoded.decode("ascii")

    def record(self, us: int, count: int = 1) -> None:
        """Count a time, in microseconds, `count` times."""
        self._counts.record_value(min(max(us, 0), _US_MAX), count)

    def record_all(self, times_us: Iterable[int]) -> None:
        """Count many times at once. This is cheaper, since many of them are equal."""
        for us, count in Counter(times_us).items():
            self.record(us, count)

    def add(self, other: "Histogram") -> None:
        """Add the counts of another histogram."""
        if other.count:  # The library treats the smallest value of an empty histogram as 0.
            self._counts.add(other._counts)

    @property
    def count(self) -> int:
        total: int = self._counts.total_count
        return total

    @property
    def max_us(self) -> int:
        """Return the largest time; 0 if nothing was counted."""
        largest: int = self._counts.get_max_value()
        return largest

    @property
    def mean_us(self) -> float:
        """Return the mean; 0 if nothing was counted."""
        if not self.count:
            return 0.0
        # The library's own mean does many steps for each possible value up to the largest.
        counted = ((index, count) for index, count in enumerate(self._counts.counts) if count)
        total: int = sum(count * self._middle_us(index) for index, count in counted)
        return total / self.count

    def percentile_us(self, percentile: float) -> int:
        """Return the time that `percentile` per cent of the counted times did not exceed; 0 if nothing was counted."""
        return self.percentiles_us((percentile,))[percentile]

    def percentiles_us(self, percentiles: Iterable[float] = PERCENTILES) -> Mapping[float, int]:
        """Return the time for each percentile; 0 if nothing was counted."""
        asked = list(percentiles)
        if not self.count:
            return dict.fromkeys(asked, 0)
        times_us: dict[float, int] = self._counts.get_percentile_to_value_dict(asked)
        return times_us

    def _middle_us(self, index: int) -> int:
        lowest: int = self._counts.get_value_from_index(index)
        highest: int = self._counts.get_highest_equivalent_value(lowest)
        return lowest + (highest - lowest + 1) // 2


def _library() -> "type[HdrHistogram]":
    with needed("benchmarks", "histograms need the library"):
        from hdrh.histogram import HdrHistogram
    library: type[HdrHistogram] = HdrHistogram
    return library
