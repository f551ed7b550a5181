"""Figures of several rounds, as the cells of tables write them."""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.rounds import is_enough
from hedwig.benchmarks.runs.words import ms
from hedwig.histograms import Histogram

__all__ = ["median", "median_mib", "median_value", "percentiles", "spread"]

_MIB: Final = 1 << 20
_SHOWN: Final = (50.0, 99.0, 99.9)


def median(good: Sequence[Measurement], value: Callable[[Measurement], float | None], form: str) -> str:
    """Return the median of a value over rounds, a dash if no round has it."""
    values = [each for measurement in good if (each := value(measurement)) is not None]
    return form.format(statistics.median(values)) if values else "–"


def median_value(good: Sequence[Measurement], name: str, form: str) -> str:
    """Return the median over rounds of one of the single figures, a dash if no round has it."""
    return median(good, lambda measurement: measurement.values.get(name), form)


def median_mib(good: Sequence[Measurement], name: str) -> str:
    """Return the median over rounds of one of the single figures, a number of bytes, in MiB; a dash if none has it."""
    return median(good, lambda each: each.values[name] / _MIB if name in each.values else None, "{:,.0f}")


def spread(values: Sequence[float], form: str) -> str:
    """Return the lowest and the highest of the rounds' values."""
    if not values:
        return "–"
    if len(values) == 1:
        return "1 round"
    return f"{form.format(min(values))} – {form.format(max(values))}"


def percentiles(histogram: Histogram) -> str:
    """Return the percentiles that tables show and the maximum, in ms; leave out percentiles with too few times."""
    times_us = histogram.percentiles_us(_SHOWN)
    shown = [ms(us) if is_enough(histogram.count, percentile) else "–" for percentile, us in times_us.items()]
    return " / ".join([*shown, ms(histogram.max_us)])
