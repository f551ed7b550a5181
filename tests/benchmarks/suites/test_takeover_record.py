"""Prove that a takeover storm is reported as it was: downtimes, the effect on other topics, and their phases."""

import json
from typing import Final

from hedwig.benchmarks.suites.takeover.record import TakeoverRecord, TakeoverSummary, TimedPublish

MS: Final = 1_000_000
S: Final = 1_000 * MS
LOST_NS: Final = 10 * S
NEAR: Final = 0.002
"""The precision of three digits."""


def _near(us: int, ms: float) -> bool:
    return abs(us - ms * 1000) <= NEAR * ms * 1000


def _storm() -> TakeoverRecord:
    """Topics 1 and 2 are those of the killed hub, served again after 4 s and 6 s; topic 3 is another hub's."""
    record = TakeoverRecord()
    record.published(TimedPublish(3, 9 * S, 9 * S, 9 * S + 5 * MS))
    record.published(TimedPublish(3, 12 * S, 12 * S, 12 * S + 20 * MS))
    record.published(TimedPublish(3, 17 * S, 17 * S, 17 * S + 5 * MS))
    record.published(TimedPublish(1, 8 * S, 8 * S, 8 * S + 5 * MS))
    record.failed(1, 11 * S, "UNCERTAIN_STATE")
    record.failed(1, 12 * S, "NOT_RESPONSIBLE_FOR_TOPIC")
    record.lost([1, 2])
    record.published(TimedPublish(1, 11 * S, 11 * S, 14 * S))
    record.served(1, 14 * S)
    record.served(2, 16 * S)
    record.received(1, 8 * S, 11 * S)
    record.received(1, 13 * S, 15 * S)
    record.received(1, 15 * S, 15 * S + MS)
    record.received(3, 12 * S, 12 * S)
    return record


def _summary(record: TakeoverRecord) -> TakeoverSummary:
    return TakeoverSummary.from_json(json.loads(json.dumps(record.summary(0, LOST_NS, unfinished=0))))


def test_times_away_count_from_the_kill() -> None:
    summary = _summary(_storm())
    assert summary.served.count == 2
    assert _near(summary.served.percentile_us(0), 4_000)
    assert _near(summary.served.max_us, 6_000)
    assert summary.all_served_ns == 16 * S
    assert [(each["topic"], each["served_s"]) for each in summary.slowest] == [(2, 6.0), (1, 4.0)]
    assert [failure[:2] for failure in summary.slowest[1]["failures"]] == [
        [1.0, "UNCERTAIN_STATE"],
        [2.0, "NOT_RESPONSIBLE_FOR_TOPIC"],
    ]


def test_a_delivery_counts_again_only_if_its_message_is_from_after_the_kill() -> None:
    summary = _summary(_storm())
    assert summary.delivered.count == 1
    assert _near(summary.delivered.max_us, 5_000)


def test_a_publish_belongs_to_the_phase_in_which_it_was_due_and_to_the_hub_of_its_topic() -> None:
    summary = _summary(_storm())
    assert {phase: histogram.count for phase, histogram in summary.others.items()} == {
        "before": 1,
        "during": 1,
        "after": 1,
    }
    assert _near(summary.others["during"].max_us, 20)
    assert {phase: histogram.count for phase, histogram in summary.own.items()} == {
        "before": 1,
        "during": 1,
        "after": 0,
    }
    assert _near(summary.own["during"].max_us, 3_000)
    assert summary.series[14].finished == 1
    assert summary.series[12].failed == 1


def test_failed_attempts_are_told_by_phase_and_status_and_those_before_the_start_are_not() -> None:
    record = _storm()
    record.failed(3, -S, "SERVICE_DOWN")
    summary = _summary(record)
    assert summary.errors["before"] == {}
    assert summary.errors["during"] == {"UNCERTAIN_STATE": 1, "NOT_RESPONSIBLE_FOR_TOPIC": 1}
    assert summary.errors["after"] == {}


def test_a_hub_that_owned_nothing_in_use_is_missed_by_nobody() -> None:
    record = TakeoverRecord()
    record.lost([])
    record.published(TimedPublish(3, 12 * S, 12 * S, 12 * S + 20 * MS))
    summary = _summary(record)
    assert (summary.served.count, summary.delivered.count) == (0, 0)
    assert summary.all_served_ns == LOST_NS
    assert summary.others["after"].count == 1
