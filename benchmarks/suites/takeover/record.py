"""The record of a takeover storm's client, and its summary for the time before, during and after the loss."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from hedwig.benchmarks.load.recording import Second
from hedwig.histograms import Histogram

__all__ = ["PHASES", "TakeoverRecord", "TakeoverSummary", "TimedPublish"]

_SECOND_NS: Final = 1_000_000_000
_SLOWEST: Final = 3
PHASES: Final = ("before", "during", "after")
"""The phases of a loss: until the kill, until all topics that are asked for are served again, and from then on."""


@dataclass(frozen=True, slots=True)
class TimedPublish:
    """A message: when it should have been published, when its first attempt began, and when it was acknowledged."""

    topic: int
    intended_ns: int
    begun_ns: int
    finished_ns: int


@dataclass(slots=True, kw_only=True)
class TakeoverSummary:
    """The numbers of one loss.

    served: for each topic that lost its hub and was asked for, the time from the kill until another hub served it.
    delivered: for each attached subscriber of such a topic, the time from the kill until it received a message
        published after the kill.
    others, own: by phase, response times of publishes to topics of the other hubs, and of the killed hub.
    errors: by phase and status, the number of failed attempts. The client repeated each.
    all_served_ns: when the last topic was served again.
    calm_ns: when the phase `during` ends: then, or once all topics have an owner again, if that is later.
    unfinished: the number of topics whose last message was never acknowledged.
    slowest: the topics that were served again last, with the seconds that took, and the failed attempts before.
    """

    all_served_ns: int
    calm_ns: int
    unfinished: int
    slowest: list[dict[str, Any]] = field(default_factory=list)
    served: Histogram = field(default_factory=Histogram)
    delivered: Histogram = field(default_factory=Histogram)
    others: dict[str, Histogram] = field(default_factory=dict)
    own: dict[str, Histogram] = field(default_factory=dict)
    errors: dict[str, Counter[str]] = field(default_factory=dict)
    series: dict[int, Second] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "all_served_ns": self.all_served_ns,
            "calm_ns": self.calm_ns,
            "unfinished": self.unfinished,
            "slowest": self.slowest,
            "served": self.served.encode(),
            "delivered": self.delivered.encode(),
            "others": {phase: histogram.encode() for phase, histogram in self.others.items()},
            "own": {phase: histogram.encode() for phase, histogram in self.own.items()},
            "errors": {phase: dict(errors) for phase, errors in self.errors.items()},
            "series": {str(number): second.to_json() for number, second in sorted(self.series.items())},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_json` made."""
        return cls(
            all_served_ns=values["all_served_ns"],
            calm_ns=values["calm_ns"],
            unfinished=values["unfinished"],
            slowest=values["slowest"],
            served=Histogram.decode(values["served"]),
            delivered=Histogram.decode(values["delivered"]),
            others={phase: Histogram.decode(text) for phase, text in values["others"].items()},
            own={phase: Histogram.decode(text) for phase, text in values["own"].items()},
            errors={phase: Counter(errors) for phase, errors in values["errors"].items()},
            series={int(number): Second.from_json(second) for number, second in values["series"].items()},
        )


class TakeoverRecord:
    """The events of a storm. All times are from one monotonic clock, in nanoseconds."""

    def __init__(self) -> None:
        self._publishes: list[TimedPublish] = []
        self._failures: list[tuple[int, int, str, str]] = []
        self._served_ns: dict[int, int] = {}
        self._received: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._lost: frozenset[int] = frozenset()

    def published(self, publish: TimedPublish) -> None:
        """Record an acknowledged message."""
        self._publishes.append(publish)

    def failed(self, topic: int, at_ns: int, status: str, why: str = "") -> None:
        """Record a failed attempt."""
        self._failures.append((topic, at_ns, status, why))

    def received(self, topic: int, begun_ns: int, at_ns: int) -> None:
        """Record a delivery of the message whose publishing began at `begun_ns`."""
        self._received[topic].append((begun_ns, at_ns))

    def lost(self, topics: Sequence[int]) -> None:
        """Record which of the topics in use the killed hub owned."""
        self._lost = frozenset(topics)

    def served(self, topic: int, at_ns: int) -> None:
        """Record that a topic that lost its hub is served again."""
        self._served_ns[topic] = at_ns

    def summary(self, start_ns: int, lost_ns: int, *, unfinished: int, owned_ns: int | None = None) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return self.summarize(start_ns, lost_ns, owned_ns=owned_ns, unfinished=unfinished).to_json()

    def summarize(
        self, start_ns: int, lost_ns: int, *, unfinished: int = 0, owned_ns: int | None = None
    ) -> TakeoverSummary:
        """Return the numbers. A message belongs to the phase in which it should have been published.

        `owned_ns` is when all topics had an owner again; None if nobody looked.
        """
        all_served_ns = max(self._served_ns.values(), default=lost_ns)
        calm_ns = max(all_served_ns, owned_ns or 0)
        summary = TakeoverSummary(all_served_ns=all_served_ns, calm_ns=calm_ns, unfinished=unfinished)

        def phase_at(at_ns: int) -> str:
            return PHASES[0] if at_ns < lost_ns else PHASES[1] if at_ns < calm_ns else PHASES[2]

        summary.slowest = self._slowest(lost_ns)
        summary.served.record_all([(at - lost_ns) // 1000 for at in self._served_ns.values()])
        summary.delivered.record_all(list(self._delivered_again_us(lost_ns)))
        others: dict[str, list[int]] = {phase: [] for phase in PHASES}
        own: dict[str, list[int]] = {phase: [] for phase in PHASES}
        by_second: defaultdict[int, list[int]] = defaultdict(list)
        for each in self._publishes:
            response_us = (each.finished_ns - each.intended_ns) // 1000
            (own if each.topic in self._lost else others)[phase_at(each.intended_ns)].append(response_us)
            by_second[(each.finished_ns - start_ns) // _SECOND_NS].append(response_us)
        for measured, into in ((others, summary.others), (own, summary.own)):
            for phase, times_us in measured.items():
                into[phase] = Histogram()
                into[phase].record_all(times_us)
        for number, times_us in by_second.items():
            second = summary.series.setdefault(number, Second())
            second.finished = len(times_us)
            second.response.record_all(times_us)
        summary.errors = {phase: Counter() for phase in PHASES}
        for _, at_ns, status, _ in self._failures:
            if at_ns >= start_ns:
                summary.errors[phase_at(at_ns)][status] += 1
                summary.series.setdefault((at_ns - start_ns) // _SECOND_NS, Second()).failed += 1
        return summary

    def _slowest(self, lost_ns: int) -> list[dict[str, Any]]:
        last = sorted(self._served_ns, key=self._served_ns.__getitem__, reverse=True)[:_SLOWEST]
        return [
            {
                "topic": topic,
                "served_s": (self._served_ns[topic] - lost_ns) / _SECOND_NS,
                "failures": [
                    [(at_ns - lost_ns) / _SECOND_NS, status, why]
                    for failed, at_ns, status, why in self._failures
                    if failed == topic and lost_ns <= at_ns
                ],
            }
            for topic in last
        ]

    def _delivered_again_us(self, lost_ns: int) -> list[int]:
        times_us = []
        for topic in self._lost & self._received.keys():
            again = [at for begun, at in self._received[topic] if begun >= lost_ns]
            if again:
                times_us.append((min(again) - lost_ns) // 1000)
        return times_us
