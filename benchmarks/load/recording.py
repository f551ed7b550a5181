"""The recording of one generator process, and its summary, which can be merged with those of others."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from hedwig.benchmarks.load.workloads import Workload
from hedwig.histograms import Histogram

__all__ = ["Recording", "Second", "Summary", "merged"]

_SECOND_NS: Final = 1_000_000_000
_SERIES_DIGITS: Final = 2
"""Precision of the histograms of single seconds: there are many, and each is read for its stalls only."""


@dataclass(slots=True)
class Second:
    """What happened in one second after the start: operations that finished, and how long they took.

    failed: operations that failed in this second; if the load repeats failures until they succeed, failed attempts.
    refused: attempts refused in this second because another caller was faster; each is repeated.
    """

    finished: int = 0
    failed: int = 0
    refused: int = 0
    deliveries: int = 0
    response: Histogram = field(default_factory=lambda: Histogram(_SERIES_DIGITS))

    def add(self, other: "Second") -> None:
        self.finished += other.finished
        self.failed += other.failed
        self.refused += other.refused
        self.deliveries += other.deliveries
        self.response.add(other.response)

    def to_json(self) -> dict[str, Any]:
        return {
            "finished": self.finished,
            "failed": self.failed,
            "refused": self.refused,
            "deliveries": self.deliveries,
            "response": self.response.encode(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` made."""
        counts = {name: values[name] for name in ("finished", "failed", "refused", "deliveries")}
        return cls(**counts, response=Histogram.decode(values["response"]))


@dataclass(slots=True, kw_only=True)
class Summary:
    """The numbers of one or more shares of a workload.

    count: operations that succeeded inside the window; `begin_ns` and `end_ns` are its borders.
    errors: operations that failed after the window had begun, by reason; some of them began before the window.
    throughout: operations in flight all through the window: begun before it, and done after it or never.
    refusals: attempts in the window that were refused because another caller was faster; each is repeated.
    offered, missed: operations that should have begun, and those of them that did not begin.
    service, response: times from when an operation began, and from when it should have begun, to its end. In a closed
        loop the two are the same.
    delivery: times from when a message should have been published to each of its receptions.
    series_width_s: each entry of `series` covers this many seconds, under the number of the first one.
    """

    begin_ns: int
    end_ns: int
    count: int = 0
    throughout: int = 0
    refusals: int = 0
    deliveries: int = 0
    unexpected_deliveries: int = 0
    offered: int = 0
    missed: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    service: Histogram = field(default_factory=Histogram)
    response: Histogram = field(default_factory=Histogram)
    delivery: Histogram = field(default_factory=Histogram)
    series: dict[int, Second] = field(default_factory=dict)
    series_width_s: int = 1

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / _SECOND_NS

    def add(self, other: "Summary") -> None:
        """Add another share, which ran at the same time."""
        assert self.series_width_s == other.series_width_s, "what has the same number must be of the same seconds"
        self.begin_ns = min(self.begin_ns, other.begin_ns)
        self.end_ns = max(self.end_ns, other.end_ns)
        self.count += other.count
        self.throughout += other.throughout
        self.refusals += other.refusals
        self.deliveries += other.deliveries
        self.unexpected_deliveries += other.unexpected_deliveries
        self.offered += other.offered
        self.missed += other.missed
        self.errors.update(other.errors)
        self.service.add(other.service)
        self.response.add(other.response)
        self.delivery.add(other.delivery)
        for number, second in other.series.items():
            self.series.setdefault(number, Second()).add(second)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "begin_ns": self.begin_ns,
            "end_ns": self.end_ns,
            "count": self.count,
            "throughout": self.throughout,
            "refusals": self.refusals,
            "deliveries": self.deliveries,
            "unexpected_deliveries": self.unexpected_deliveries,
            "offered": self.offered,
            "missed": self.missed,
            "errors": dict(self.errors),
            "service": self.service.encode(),
            "response": self.response.encode(),
            "delivery": self.delivery.encode(),
            "series": {str(number): second.to_json() for number, second in sorted(self.series.items())},
            "series_width_s": self.series_width_s,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`, or of the Java program, whose series has an entry for each second."""
        return cls(
            errors=Counter(values["errors"]),
            service=Histogram.decode(values["service"]),
            response=Histogram.decode(values["response"]),
            delivery=Histogram.decode(values["delivery"]),
            series={int(number): Second.from_json(second) for number, second in values["series"].items()},
            series_width_s=values.get("series_width_s", 1),
            **{name: values[name] for name in _PLAIN},
        )


_PLAIN: Final = (
    "begin_ns",
    "end_ns",
    "count",
    "throughout",
    "refusals",
    "deliveries",
    "unexpected_deliveries",
    "offered",
    "missed",
)


class Recording:
    """The times at which each operation should have begun, began and finished; computes nothing while the load runs."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.start_ns = 0
        self.intended_ns = array("q")
        self.begun_ns = array("q")
        self.finished_ns = array("q")
        self.errors: dict[int, str] = {}
        self.refused_ns = array("q")
        self.missed = 0
        self.delivered_ns = array("q")
        self.delivery_us = array("q")
        self.unexpected_deliveries = 0

    def summarize(self) -> Summary:
        """Return the numbers of the window, which lasts from the end of the warm-up to the end; see `_window`.

        The times of an operation are in the window if it should have begun there. It is counted if it finished there.
        In a closed loop one operation ends when another begins. If that is when the window begins, only the other
        operation is in it.

        Two kinds that began before the window are counted too: operations that failed after it had begun, and
        operations in flight all through it. Otherwise a caller without an answer in the whole window would be in no
        number.
        """
        begin_ns, end_ns = self._window()
        summary = Summary(begin_ns=begin_ns, end_ns=end_ns, missed=self.missed)
        summary.unexpected_deliveries = self.unexpected_deliveries
        service: list[int] = []
        response: list[int] = []
        by_second: defaultdict[int, list[int]] = defaultdict(list)
        for number, (intended, begun, finished) in enumerate(
            zip(self.intended_ns, self.begun_ns, self.finished_ns, strict=True)
        ):
            error = self.errors.get(number)
            second = (finished - self.start_ns) // _SECOND_NS
            is_throughout = intended < begin_ns and finished > end_ns
            summary.throughout += is_throughout
            if error is not None:
                summary.series.setdefault(second, Second()).failed += 1
                if finished >= begin_ns:
                    summary.errors[error] += 1
                continue
            by_second[second].append((finished - intended) // 1000)
            summary.count += begin_ns < finished <= end_ns
            if is_throughout or begin_ns <= intended <= end_ns:
                service.append((finished - begun) // 1000)
                response.append((finished - intended) // 1000)
        summary.refusals = sum(begin_ns <= at <= end_ns for at in self.refused_ns)
        for number, refused in Counter((at - self.start_ns) // _SECOND_NS for at in self.refused_ns).items():
            summary.series.setdefault(number, Second()).refused = refused
        summary.offered = sum(1 for at in self.intended_ns if at >= begin_ns) + self.missed
        summary.service.record_all(service)
        summary.response.record_all(response)
        for number, times_us in by_second.items():
            second_summary = summary.series.setdefault(number, Second())
            second_summary.finished = len(times_us)
            second_summary.response.record_all(times_us)
        self._summarize_deliveries(summary)
        return summary

    def _window(self) -> tuple[int, int]:
        """Return the borders of the window.

        In a closed loop with a number of operations, the window begins when the first operation after the warm-up
        began. It ends when the last operation was done; a failed one counts with the time at which it began.
        Otherwise one operation that is given up, or fails only at the store's deadline, would stretch the window to
        many times what the others needed.
        """
        workload = self._workload
        if workload.is_bounded:
            warmup = int(workload.warmup_share * len(self.intended_ns))
            begin_ns = self.intended_ns[warmup] if warmup else self.start_ns
            ends_ns = (
                self.intended_ns[number] if number in self.errors else finished
                for number, finished in enumerate(self.finished_ns)
            )
            return begin_ns, max(ends_ns, default=begin_ns)
        begin_ns = self.start_ns + round(workload.warmup_s * _SECOND_NS)
        return begin_ns, self.start_ns + round(workload.seconds * _SECOND_NS)

    def _summarize_deliveries(self, summary: Summary) -> None:
        inside: list[int] = []
        for at_ns, us in zip(self.delivered_ns, self.delivery_us, strict=True):
            summary.series.setdefault((at_ns - self.start_ns) // _SECOND_NS, Second()).deliveries += 1
            if summary.begin_ns <= at_ns <= summary.end_ns:
                inside.append(us)
        summary.deliveries = len(inside)
        summary.delivery.record_all(inside)


def merged(parts: Iterable[Summary]) -> Summary:
    """Return the sum of at least one share."""
    first, *others = parts
    for other in others:
        first.add(other)
    return first
