"""What more topics cost each backend by itself: its rates with the most, against its own with the fewest."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hedwig.benchmarks.load.workloads import FILL, RESTART
from hedwig.benchmarks.report.charts.growth import Stage
from hedwig.benchmarks.report.compare.figures import SECONDS_MIN, good
from hedwig.benchmarks.report.page import Table
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.words import driver_title, load_words

__all__ = ["kept_table", "kept_words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """One load on one backend. rates: the median of the rounds, by topics, the fewest first.

    shortest_s: the shortest round among the first and the last of these.
    """

    rates: dict[int, float]
    shortest_s: float

    @property
    def share(self) -> float | None:
        """Return the last rate by the first; None of one rate, or where a round was too short to tell."""
        if len(self.rates) < 2 or self.shortest_s < SECONDS_MIN:
            return None
        rates = list(self.rates.values())
        return rates[-1] / rates[0]


def kept_words(stage: Stage) -> str:
    """Return in a sentence what became of the rates of each backend; nothing if nobody had a second step."""
    told = []
    for backend in stage.backends():
        found = [each for _, each in _found(stage, backend) if each.share is not None]
        ranges = {(min(each.rates), max(each.rates)) for each in found}
        if not found or len(ranges) > 1:
            continue
        ((first, last),) = ranges
        shares = sorted(each.share for each in found if each.share is not None)
        middle = math.exp(statistics.fmean(map(math.log, shares)))
        told.append(
            f"{driver_title(backend)} had, with {last:,} topics, {middle:.2f} times its rates with {first:,} (the "
            f"geometric mean of {len(shares):,} loads, {shares[0]:.2f} to {shares[-1]:.2f})"
        )
    return f"What more topics cost each by itself, {stage.words}: {'; '.join(told)}." if told else ""


def kept_table(stage: Stage) -> Table | None:
    """Return the rates of each load on each backend with the fewest topics and the most; None if there is one step."""
    backends = stage.backends()
    columns = ["measured"]
    ends = {}
    for backend in backends:
        topics = sorted({each.workload.topics for each in _loads(stage, backend)})
        if len(topics) > 1:
            ends[backend] = (topics[0], topics[-1])
            columns += [f"{driver_title(backend)}: {topics[0]:,} topics", f"{topics[-1]:,} topics", "×"]
    by_case = {backend: dict(_found(stage, backend)) for backend in ends}
    cases = dict.fromkeys(case for found in by_case.values() for case in found)
    lines = []
    for case in cases:
        line = [case]
        for backend, (first, last) in ends.items():
            kept = by_case[backend].get(case)
            line += [_rate(kept, first), _rate(kept, last), _share(kept, first, last)]
        lines.append(line)
    return Table(title=f"{stage.words}: operations a second", columns=columns, lines=lines) if lines else None


def _loads(stage: Stage, backend: str) -> list[Measurement]:
    own = [each for each in stage.measurements if each.driver == backend and not each.workload.is_open_loop]
    return good([each for each in own if each.workload.name not in (FILL, RESTART)])


def _found(stage: Stage, backend: str) -> Iterator[tuple[str, _Kept]]:
    """Yield each load that was made with more than one number of topics, by its name."""
    loads = _loads(stage, backend)
    for case in dict.fromkeys(map(_case, loads)):
        own = [each for each in loads if _case(each) == case]
        topics = sorted({each.workload.topics for each in own})
        if len(topics) > 1:
            rates = {step: _median_rate([each for each in own if each.workload.topics == step]) for step in topics}
            ends = [each.seconds for each in own if each.workload.topics in (topics[0], topics[-1])]
            yield case, _Kept(rates=rates, shortest_s=min(ends))


def _case(measurement: Measurement) -> str:
    return f"{measurement.workload.name}, {load_words(measurement.workload)}"


def _median_rate(rounds: Sequence[Measurement]) -> float:
    return statistics.median(each.rate_per_s for each in rounds)


def _rate(kept: _Kept | None, topics: int) -> str:
    rate = kept.rates.get(topics) if kept is not None else None
    return "–" if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _share(kept: _Kept | None, first: int, last: int) -> str:
    if kept is None or not {first, last} <= kept.rates.keys():
        return "–"
    return "too short to tell" if kept.share is None else f"{kept.share:.2f}"
