"""Figures of several rounds, as the tables of all results write them."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram

__all__ = ["is_enough", "median", "median_value", "merged", "percentiles", "spread"]

_SHOWN: Final = (50.0, 99.0, 99.9)
_BEYOND_MIN: Final = 10


def is_enough(operations: int, percentile: float) -> bool:
    """Say whether so many operations tell a percentile: ten of them lie beyond it, 1,000 for p99, 10,000 for p99.9."""
    return operations * (100 - percentile) >= 100 * _BEYOND_MIN - 1e-6


def median(good: Sequence[Measurement], value: Callable[[Measurement], float | None], form: str) -> str:
    """Return the middle of a value over rounds, a dash if none has it."""
    found = [each for measurement in good if (each := value(measurement)) is not None]
    return form.format(statistics.median(found)) if found else "–"


def median_value(good: Sequence[Measurement], name: str, form: str) -> str:
    """Return the middle over rounds of one of the single figures, a dash if none has it."""
    return median(good, lambda measurement: measurement.values.get(name), form)


def spread(values: Sequence[float], form: str) -> str:
    """Return the lowest and the highest of the rounds' values."""
    if not values:
        return "–"
    if len(values) == 1:
        return "1 round"
    return f"{form.format(min(values))} – {form.format(max(values))}"


def merged(good: Sequence[Measurement], name: str) -> Histogram:
    """Return one of the histograms, of all rounds together."""
    return Histogram.merged(each.histograms[name] for each in good if name in each.histograms)


def percentiles(histogram: Histogram) -> str:
    """Return the percentiles that tables show, as far as there are enough times, and the maximum, in milliseconds."""
    found = histogram.percentiles_us(_SHOWN)
    shown = [_ms(us) if is_enough(histogram.count, percentile) else "–" for percentile, us in found.items()]
    return " / ".join([*shown, _ms(histogram.max_us)])


def _ms(us: float) -> str:
    ms = us / 1000
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
