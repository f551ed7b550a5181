"""Whether an offered load was kept up, or a queue grew behind it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hedwig.benchmarks.load.workloads import Workload
from hedwig.histograms import Histogram

__all__ = ["is_kept_up", "queue_growth"]

_REACHED: Final = 0.98
"""The share of the offered load from which it counts as reached."""
_STALL_S: Final = 0.1
_STALL_SHARE: Final = 0.05
"""Share of a window that a stall at its end may hold back without a growing queue."""
_STALLED: Final = 4
_GROWTH: Final = 2
_GROWTH_MS: Final = 10.0
"""Times of about 1 ms that double, but grow by less than this, come from a busy disk rather than a queue."""
_QUARTERS: Final = 4
_COUNT_MIN: Final = 20


def is_kept_up(workload: Workload, done_per_s: float, seconds: float, response: Histogram | None) -> bool:
    """Say whether as much was done in a window as was offered, apart from operations in flight at its end.

    A window that follows a warm-up begins with as many operations in flight as it ends with. Without a warm-up, the
    operations of one usual response time are in flight at the end.
    A stall at the very end leaves more behind, but does not change the usual response time. If a queue grows all
    through the window, half of the operations wait at least for half of what is behind.

    Args: done_per_s - operations, over all of the window. response - None where a driver has no histogram.
    """
    behind_s = seconds - done_per_s * seconds / workload.rate_per_s
    usual_s = response.percentile_us(50) / 1e6 if response is not None and response.count else None
    if usual_s is not None and not workload.warmup_s:
        behind_s -= usual_s
    if behind_s <= (1 - _REACHED) * seconds:
        return True
    if usual_s is None or behind_s > min(_STALL_S, _STALL_SHARE * seconds):
        return False
    return usual_s <= behind_s / _STALLED


def queue_growth(workload: Workload, series: Mapping[int, Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the median response times of the window's second and last quarter, ms, if the last is twice as long.

    None as well if the window has too few whole seconds, or too few operations finished in one of the quarters.
    """
    whole = range(math.ceil(workload.warmup_s), math.floor(workload.seconds))
    quarter = len(whole) // _QUARTERS
    if not quarter:
        return None
    second = _median_ms(series, whole[quarter : 2 * quarter])
    last = _median_ms(series, whole[-quarter:])
    if second is None or last is None or last <= _GROWTH * second or last - second < _GROWTH_MS:
        return None
    return second, last


def _median_ms(series: Mapping[int, Mapping[str, Any]], seconds: Sequence[int]) -> float | None:
    texts = [series[second]["response"] for second in seconds if "response" in series.get(second, {})]
    total = Histogram.merged(Histogram.decode(text) for text in texts)
    return total.percentile_us(50) / 1000 if total.count >= _COUNT_MIN else None
