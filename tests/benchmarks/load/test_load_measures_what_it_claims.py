"""Prove that the load loop reports the known delays, stalls and failures of a target."""

from dataclasses import replace

import pytest

from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Operation, Workload
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.rounds import failed_share
from tests.benchmarks.support.known_target import KnownTarget, measured

MS = 1_000
ONE_PER_CENT = 0.01


def _measurement(workload: Workload, summary: Summary) -> Measurement:
    measurement = Measurement(workload=workload, driver="known", round=1)
    measurement.take(summary, is_delivery=Operation.DELIVER in workload.mix)
    return measurement


def _open(rate: float, **changes: float) -> Workload:
    given = {"seconds": 10.0, "warmup_s": 0.0, "in_flight": 100_000, **changes}
    return Workload(name="publish", rate_per_s=rate, **given)  # type: ignore[arg-type]


def test_closed_loop_on_a_constant_delay() -> None:
    workload = Workload(name="publish", in_flight=4, seconds=10.0, warmup_s=2.0)
    summary = measured(workload, KnownTarget(0.020))
    assert summary.seconds == 8.0
    assert summary.count / summary.seconds == pytest.approx(4 / 0.020, rel=ONE_PER_CENT)
    assert summary.service.percentile_us(50) == pytest.approx(20 * MS, rel=ONE_PER_CENT)
    assert summary.service.max_us == pytest.approx(20 * MS, rel=ONE_PER_CENT)
    assert summary.response.count == summary.service.count
    assert not summary.errors
    assert _measurement(workload, summary).is_offered_load_reached is None


def test_open_loop_on_a_constant_delay() -> None:
    workload = _open(500.0, warmup_s=2.0)
    summary = measured(workload, KnownTarget(0.020))
    assert summary.count == pytest.approx(8 * 500, abs=15)
    # The loop wakes every millisecond, and its delay counts.
    assert summary.response.percentile_us(50) == pytest.approx(20 * MS, abs=1.1 * MS)
    assert summary.service.percentile_us(50) == pytest.approx(20 * MS, rel=ONE_PER_CENT)
    assert _measurement(workload, summary).is_offered_load_reached is True
    assert _measurement(workload, summary).notes() == []


def test_a_stall_shows_in_the_response_times_of_all_that_waited() -> None:
    """At 100/s, a second without answers delays a tenth of the operations of ten seconds, evenly up to a second."""
    summary = measured(_open(100.0), KnownTarget(0.010, stalls=[(5.0, 6.0)]))
    response = summary.response
    assert response.count == 1000
    assert response.percentile_us(50) == pytest.approx(10 * MS, abs=1.5 * MS)
    assert response.percentile_us(89) == pytest.approx(10 * MS, abs=1.5 * MS)
    assert response.percentile_us(95) == pytest.approx(500 * MS, abs=20 * MS)
    assert response.percentile_us(99) == pytest.approx(900 * MS, abs=20 * MS)
    assert response.max_us == pytest.approx(1000 * MS, abs=20 * MS)
    stalled = summary.series[5]
    assert stalled.finished <= 1
    assert summary.series[4].finished == pytest.approx(100, abs=2)
    assert summary.series[6].response.max_us == pytest.approx(1000 * MS, rel=0.03)


def test_operations_that_could_not_begin_in_time_are_not_forgiven() -> None:
    """With one in flight, one operation waits for the target during the stall. The others wait behind it, unsent."""
    summary = measured(_open(100.0, in_flight=1), KnownTarget(0.005, stalls=[(5.0, 6.0)]))
    assert summary.response.count == 1000
    assert summary.service.percentile_us(99.8) == pytest.approx(5 * MS, rel=ONE_PER_CENT)
    assert summary.service.max_us == pytest.approx(1000 * MS, rel=0.02)
    # At the end of the stall 100 operations wait. For each new one two finish, so 200 have waited, evenly.
    assert summary.response.percentile_us(90) == pytest.approx(500 * MS, abs=20 * MS)
    assert summary.response.percentile_us(99) == pytest.approx(950 * MS, abs=20 * MS)


def test_a_closed_loop_does_not_see_the_stall() -> None:
    """This is why both loops exist: here the same stall is one slow operation in ten thousand."""
    workload = Workload(name="publish", in_flight=1, seconds=10.0, warmup_s=0.0)
    summary = measured(workload, KnownTarget(0.001, stalls=[(5.0, 6.0)]))
    assert summary.count == pytest.approx(9_000, abs=20)
    assert summary.response.percentile_us(99.9) == pytest.approx(1 * MS, rel=ONE_PER_CENT)
    assert summary.response.max_us == pytest.approx(1000 * MS, rel=0.02)


def test_offered_load_that_was_not_reached_is_flagged() -> None:
    workload = _open(1000.0, in_flight=1)
    summary = measured(workload, KnownTarget(0.010))
    measurement = _measurement(workload, summary)
    assert measurement.rate_per_s == pytest.approx(100, rel=ONE_PER_CENT)
    assert summary.offered == 10_000
    assert summary.missed == pytest.approx(9_000, abs=10)
    assert measurement.is_offered_load_reached is False
    assert measurement.notes() == [f"offered load not reached: {measurement.rate_per_s:,.0f} of 1,000/s"]


def test_a_backlog_that_only_grows_is_flagged_too() -> None:
    """The loop begins each operation in time, but each answer is later than the one before."""
    workload = _open(1000.0)
    target = KnownTarget(0.010, stalls=[(0.0, 9.9)])
    measurement = _measurement(workload, measured(workload, target))
    assert measurement.missed == 0
    assert measurement.is_offered_load_reached is True
    late = _measurement(workload, measured(workload, KnownTarget(0.010, stalls=[(0.0, 11.0)])))
    assert late.missed == 0
    assert late.is_offered_load_reached is False


def test_failures_are_counted_by_reason_and_not_as_work_done() -> None:
    workload = Workload(name="publish", in_flight=10, operations=1000, seconds=100.0)
    target = KnownTarget(0.010, fails=lambda number: "SERVICE_DOWN" if number % 10 == 0 else None)
    summary = measured(workload, target)
    assert summary.count == 900
    assert summary.service.count == 900
    assert summary.errors == {"SERVICE_DOWN": 100}
    assert sum(second.failed for second in summary.series.values()) == 100


@pytest.mark.parametrize("warmup_s", [0.0, 5.0])
def test_refusals_are_counted_in_the_second_in_which_they_were_told(warmup_s: float) -> None:
    """At 100 a second, each operation of the fourth second is refused twice."""
    target = KnownTarget(0.010, refuses=lambda number: 2 if 300 <= number < 400 else 0)
    workload = _open(100.0, warmup_s=warmup_s)
    summary = measured(workload, target)
    assert {number: each.refused for number, each in summary.series.items() if each.refused} == {3: 200}
    assert summary.refusals == (200 if warmup_s == 0.0 else 0), "in all they are those of the window"
    assert not summary.errors
    series = _measurement(workload, Summary.from_json(summary.to_json())).series
    assert [series[number]["refused"] for number in (2, 3, 4)] == [0, 200, 0]
    other = measured(workload, KnownTarget(0.010, refuses=lambda number: number == 350))
    summary.add(other)
    assert summary.series[3].refused == 201


def test_operations_do_not_begin_before_the_start() -> None:
    """Event loops round their timers. An operation that begins too early would be counted, but be in no histogram."""
    workload = Workload(name="publish", in_flight=10, operations=100, seconds=100.0)
    summary = measured(workload, KnownTarget(0.010), early_s=0.0004)
    assert (summary.count, summary.service.count, summary.offered) == (100, 100, 100)


def test_operations_without_an_answer_are_failures() -> None:
    workload = Workload(name="publish", in_flight=10, operations=100, seconds=100.0)
    summary = measured(workload, KnownTarget(0.010, answers=lambda number: number < 95))
    assert summary.count == 95
    assert summary.errors == {"unfinished": 5}
    # The time in which the loop waited for the five others does not count.
    assert summary.count / summary.seconds == pytest.approx(10 / 0.010, rel=0.06)


def test_callers_that_never_get_an_answer_show_although_they_began_while_warming_up() -> None:
    """61 of 64 callers wait through the whole window for an answer that never comes: these count as failures."""
    workload = Workload(name="publish", in_flight=64, seconds=2.5, warmup_s=0.5)
    summary = measured(workload, KnownTarget(0.010, answers=lambda number: number >= 61))
    assert summary.count == pytest.approx(3 / 0.010 * 2.0, rel=0.02)
    assert (summary.errors, summary.throughout) == ({"unfinished": 61}, 61)
    measurement = _measurement(workload, summary)
    assert failed_share([measurement]) == pytest.approx(61 / 661, rel=0.02)
    assert "61 of 64 callers had no answer in all of the window" in measurement.notes()


def test_callers_whose_answer_comes_after_the_window_have_waited_as_long() -> None:
    workload = Workload(name="publish", in_flight=64, seconds=2.5, warmup_s=0.5)
    target = KnownTarget(0.010, delays=dict.fromkeys(range(4), 4.0))
    summary = measured(workload, target)
    assert not summary.errors
    assert summary.throughout == 4
    assert summary.response.max_us == pytest.approx(4_000 * MS, rel=ONE_PER_CENT)
    assert summary.response.count == pytest.approx(60 / 0.010 * 2.0 + 4, rel=0.02)
    assert "4 of 64 callers had no answer in all of the window" in _measurement(workload, summary).notes()


def test_what_began_while_warming_up_and_failed_in_the_window_is_a_failure_in_it() -> None:
    workload = Workload(name="publish", in_flight=4, seconds=2.5, warmup_s=0.5)
    target = KnownTarget(0.010, delays={0: 1.0}, fails=lambda number: "SERVICE_DOWN" if number in {0, 5} else None)
    summary = measured(workload, target)
    assert summary.errors == {"SERVICE_DOWN": 1}, "number 5 failed before the window"
    assert summary.throughout == 0


def test_files_that_do_not_tell_who_waited_are_reckoned_with() -> None:
    """Little's law shows them: callers that wait all the time are in neither the rate nor the times of such a file."""
    workload = Workload(name="publish", in_flight=64, seconds=2.5, warmup_s=0.5)
    few = _measurement(workload, measured(workload, KnownTarget(0.010, answers=lambda number: number >= 61)))
    all_of_them = _measurement(workload, measured(workload, KnownTarget(0.010)))
    for each in (few, all_of_them):
        del each.values["under_way_throughout"]
    assert few.notes()[-1] == "about 61 of 64 callers had no answer in all of the window, and are not in the times"
    assert not all_of_them.notes()
    # The window is two seconds. Operations of one second do not show how many callers were waiting all the time.
    slow = _measurement(workload, measured(workload, KnownTarget(1.0, answers=lambda number: number >= 61)))
    del slow.values["under_way_throughout"]
    assert slow.callers_without_answer == 0


def test_operations_that_fail_late_do_not_slow_down_those_that_were_done() -> None:
    """As when a store's own deadline ends them: they count as errors, and the rate is that of the finished ones."""
    workload = Workload(name="publish", in_flight=10, operations=1000, seconds=100.0)
    target = KnownTarget(0.010, stalls=[(0.995, 20.0)], fails=lambda number: "TIMEOUT" if number >= 990 else None)
    summary = measured(workload, target)
    assert (summary.count, summary.errors) == (990, {"TIMEOUT": 10})
    assert summary.count / summary.seconds == pytest.approx(10 / 0.010, rel=0.06)


def test_the_first_fifth_of_a_number_of_operations_does_not_count() -> None:
    """A stall at the start is over before the window begins. All that follows is as even as without it."""
    workload = Workload(name="publish", in_flight=4, operations=1000, warmup_share=0.2, seconds=100.0)
    summary = measured(workload, KnownTarget(0.010, stalls=[(0.0, 1.5)]))
    assert summary.service.count == summary.offered == 800
    assert summary.service.max_us == pytest.approx(10 * MS, rel=ONE_PER_CENT)
    assert summary.count / summary.seconds == pytest.approx(4 / 0.010, rel=ONE_PER_CENT)
    assert sum(second.finished for second in summary.series.values()) == 1000
    whole = measured(replace(workload, warmup_share=0.0), KnownTarget(0.010, stalls=[(0.0, 1.5)]))
    assert whole.service.max_us == pytest.approx(1500 * MS, rel=ONE_PER_CENT)


def test_a_number_of_operations_that_time_cut_short_is_warmed_up_by_a_fifth_of_those_that_began() -> None:
    workload = Workload(name="publish", in_flight=1, operations=1000, warmup_share=0.2, seconds=1.0, warmup_s=0.0)
    summary = measured(workload, KnownTarget(0.100))
    assert summary.service.count == summary.count == 8
    assert summary.seconds == pytest.approx(0.8, rel=ONE_PER_CENT)
    assert summary.missed == 990


@pytest.mark.parametrize(
    "changes", [{"warmup_share": 1.0}, {"warmup_share": -0.1}, {"rate_per_s": 5.0}, {"operations": 0}]
)
def test_a_share_to_warm_up_with_is_of_a_number_of_operations(changes: dict[str, float]) -> None:
    given = {"operations": 10, "warmup_share": 0.2, **changes}
    with pytest.raises(ValueError, match="warmup_share must be"):
        Workload(name="publish", **given)  # type: ignore[arg-type]


def test_a_target_that_answers_nothing_does_not_hang_the_load() -> None:
    workload = Workload(name="publish", in_flight=10, operations=100, seconds=100.0)
    summary = measured(workload, KnownTarget(0.010, answers=lambda _: False))
    assert (summary.count, summary.missed, summary.errors) == (0, 90, {"unfinished": 10})


def test_a_load_ends_when_its_hub_is_lost() -> None:
    workload = Workload(name="publish", in_flight=10, operations=100_000, seconds=1000.0)
    summary = measured(workload, KnownTarget(0.010, lost_after=500))
    assert summary.count == pytest.approx(500, abs=10)
    assert summary.missed == 100_000 - summary.count


def test_a_delivery_counts_when_everybody_has_it() -> None:
    workload = Workload(
        name="deliver",
        mix={"deliver": 1.0},
        subscribers=4,
        in_flight=1,
        operations=100,
        seconds=1000.0,
    )
    summary = measured(workload, KnownTarget(0.010, receptions=4))
    assert summary.count == 100
    assert summary.deliveries == 400
    assert summary.unexpected_deliveries == 0
    assert summary.service.percentile_us(50) == pytest.approx(50 * MS, rel=ONE_PER_CENT)
    assert summary.delivery.percentile_us(25) == pytest.approx(20 * MS, rel=ONE_PER_CENT)
    assert summary.delivery.max_us == pytest.approx(50 * MS, rel=ONE_PER_CENT)
    measurement = _measurement(workload, summary)
    assert measurement.count == 400
    assert measurement.operations_per_s == pytest.approx(20, rel=ONE_PER_CENT)


def test_a_delivery_too_few_and_one_too_many_are_told() -> None:
    workload = Workload(
        name="deliver", mix={"deliver": 1.0}, subscribers=2, in_flight=10, operations=20, seconds=1000.0
    )
    assert measured(workload, KnownTarget(0.010, receptions=1)).errors == {"unfinished": 10}
    summary = measured(workload, KnownTarget(0.010, receptions=3))
    assert summary.count == 20
    assert summary.unexpected_deliveries > 0
    assert "deliveries too many" in _measurement(workload, summary).notes()[0]


def test_shares_make_up_the_whole_load() -> None:
    workload = Workload(name="publish", topics=30, in_flight=9, operations=100, seconds=100.0)
    targets = [KnownTarget(0.010) for _ in range(3)]
    parts = [measured(workload, target, share=share, shares=3) for share, target in enumerate(targets)]
    assert [part.count for part in parts] == [34, 33, 33]
    alone = KnownTarget(0.010)
    measured(workload, alone)
    together = [each for target in targets for each in target.begun]
    assert sorted(together) == sorted(alone.begun)
    whole, *others = parts
    for other in others:
        whole.add(other)
    assert whole.count == whole.service.count == 100


def test_shares_offer_the_whole_rate() -> None:
    workload = _open(300.0)
    parts = [measured(workload, KnownTarget(0.010), share=share, shares=3) for share in range(3)]
    assert [part.offered for part in parts] == [1000, 1000, 1000]


def test_a_seed_decides_the_order() -> None:
    def order(seed: int) -> list[tuple[Operation, int]]:
        target = KnownTarget(0.001)
        workload = Workload(
            name="mixed",
            mix={"publish": 3.0, "subscribe": 1.0},
            topics=100,
            in_flight=10,
            operations=1000,
            seconds=100.0,
            seed=seed,
        )
        measured(workload, target)
        return target.begun

    first = order(1)
    assert first == order(1)
    assert first != order(2)
    assert sum(operation is Operation.SUBSCRIBE for operation, _ in first) == pytest.approx(250, abs=60)
    assert {topic for _, topic in first} == set(range(100))
