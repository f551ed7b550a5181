"""A few ratios of the measurements of updates: the native driver against the gateway and the Java client."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hedwig.benchmarks.load.workloads import Operation
from hedwig.benchmarks.runs.compare_rounds import middle
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.rounds import is_enough
from hedwig.histograms import Histogram

__all__ = ["per_core", "percentile_ratio", "ratio", "update_ratios"]

_NATIVE, _GATEWAY, _JAVA = "native", "gateway", "java"


def per_core(measurement: Measurement) -> float | None:
    """Return how many operations one busy processor of the client does per second."""
    used = measurement.values.get("client_cpu_s")
    return measurement.count / used if used else None


def ratio(
    good: Sequence[Measurement],
    beside: Mapping[int, Measurement],
    value: Callable[[Measurement], float | None],
) -> str:
    """Return the geometric mean of the ratios to the measurement beside it in the same round, and their range.

    value: returns a rate, or another figure that may be averaged. Percentiles may not: see `percentile_ratio`.
    """
    pairs = [(value(mine), value(other)) for mine, other in _pairs(good, beside)]
    ratios = [mine / other for mine, other in pairs if mine and other]
    return _shown(middle(ratios), ratios) if ratios else "–"


def percentile_ratio(
    good: Sequence[Measurement], beside: Mapping[int, Measurement], name: str, percentile: float
) -> str:
    """Return the ratio of a percentile over all rounds' times together, and the range of its ratios in single rounds.

    It uses only rounds that both sides have, with enough operations for the percentile. The result is a dash if the
    times of some round are those of only a part of the callers, while others waited.
    """
    both = _pairs(good, beside)
    if any(mine.lacks_waits or other.lacks_waits for mine, other in both):
        return "–"
    pairs = [
        (mine.histograms[name], other.histograms[name])
        for mine, other in both
        if name in mine.histograms and name in other.histograms
    ]
    shared = [(mine, other) for mine, other in pairs if is_enough(min(mine.count, other.count), percentile)]
    if not shared:
        return "–"
    times = [(mine.percentile_us(percentile), other.percentile_us(percentile)) for mine, other in shared]
    whole, divisor = (Histogram.merged(side).percentile_us(percentile) for side in zip(*shared, strict=True))
    if not divisor or not all(other for _, other in times):
        return "–"
    return _shown(whole / divisor, [mine / other for mine, other in times])


def _pairs(good: Iterable[Measurement], beside: Mapping[int, Measurement]) -> list[tuple[Measurement, Measurement]]:
    return [(each, beside[each.round]) for each in good if each.round in beside]


def _shown(whole: float, ratios: Sequence[float]) -> str:
    return f"{whole:.2f}" if len(ratios) == 1 else f"{whole:.2f} ({min(ratios):.2f} – {max(ratios):.2f})"


def update_ratios(measurements: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Return the title and the ratio of each comparison, without drivers that were not measured."""
    done = [
        each for each in measurements if each.workload.name == Operation.UPDATE and each.wall is None and each.count
    ]
    depths = sorted({each.workload.in_flight for each in done})
    ratios = [
        (
            "the native driver's best rate ÷ the gateway driver's best",
            ratio(_best(done, _NATIVE), _by_round(_best(done, _GATEWAY)), lambda each: each.rate_per_s),
        ),
        (
            "the native driver's best rate ÷ the Java client's best",
            ratio(_best(done, _NATIVE), _by_round(_best(done, _JAVA)), lambda each: each.rate_per_s),
        ),
    ]
    ratios += [
        (
            f"operations for each second of the client's processor, native ÷ java, {depth:,} in flight",
            ratio(_at(done, _NATIVE, depth), _by_round(_at(done, _JAVA, depth)), per_core),
        )
        for depth in depths
    ]
    ratios.append(
        (
            "median time of one caller, native ÷ java",
            percentile_ratio(_at(done, _NATIVE, 1), _by_round(_at(done, _JAVA, 1)), "service", 50),
        )
    )
    return [(what, value) for what, value in ratios if value != "–"]


def _at(done: Iterable[Measurement], driver: str, in_flight: int) -> list[Measurement]:
    return [each for each in done if each.driver == driver and each.workload.in_flight == in_flight]


def _best(done: Iterable[Measurement], driver: str) -> list[Measurement]:
    """Return the fastest measurement of each round."""
    best: dict[int, Measurement] = {}
    for each in done:
        if each.driver == driver and (each.round not in best or each.rate_per_s > best[each.round].rate_per_s):
            best[each.round] = each
    return list(best.values())


def _by_round(measurements: Iterable[Measurement]) -> dict[int, Measurement]:
    return {each.round: each for each in measurements}
