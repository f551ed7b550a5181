"""Prove that a backend is called better only if the rounds and all their times agree."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hedwig.benchmarks.runs.compare_rounds import Relation
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.metadata.against import Against, against, against_table
from tests.benchmarks.support.known_times import (
    CONTRARY,
    CONTRARY_OVER_ALL,
    EVEN,
    LONGER,
    LONGER_OVER_ALL,
    OF_ROUNDS,
    Tails,
    timed,
)
from tests.benchmarks.support.recorded_results import three_backends, wall


def _claims(hbase_factor: float) -> list[Measurement]:
    """Return claims of ZooKeeper at a steady rate, and those of HBase at a known multiple of it."""
    factors = {"zookeeper": 1.0, "hbase": hbase_factor}
    return [
        replace(each, count=round((1000.0 + each.round) * factors[each.driver] * 100), seconds=100.0, histograms={})
        for each in three_backends().measurements
        if each.workload.name == "claim" and not each.workload.is_open_loop and each.driver in factors
    ]


def _compared(measurements: Sequence[Measurement]) -> list[Against]:
    return against(measurements, "zookeeper", "hbase")


def _verdicts(measurements: Sequence[Measurement]) -> list[str]:
    return [line[5].partition(":")[0] for line in against_table("", _compared(measurements)).lines]


@pytest.mark.parametrize(("factor", "verdict"), [(4.0, "faster"), (0.25, "slower"), (1.0, "within the noise")])
def test_a_known_factor_is_found_for_whom_it_is(factor: float, verdict: str) -> None:
    compared = _compared(_claims(factor))
    assert len(compared) == 2  # One for each number of topics.
    for each in compared:
        assert each.difference is not None
        assert each.difference.ratio == pytest.approx(factor, rel=0.01)
        assert each.ratios == pytest.approx([factor] * 3, rel=0.01)
        assert each.is_sure is (factor != 1)
    assert _verdicts(_claims(factor)) == [verdict] * 2


def test_one_round_is_no_verdict() -> None:
    claims = [each for each in _claims(4.0) if each.round == 1]
    assert _verdicts(claims) == ["noise unknown"] * 2
    assert not any(each.is_sure for each in _compared(claims))


def test_rounds_that_one_side_has_alone_are_not_in_the_factor() -> None:
    claims = [
        replace(each, count=9 * each.count) if (each.driver, each.round) == ("hbase", 3) else each
        for each in _claims(2.0)
        if (each.driver, each.round) != ("zookeeper", 3)
    ]
    for each in _compared(claims):
        assert each.difference is not None
        assert each.difference.ratio == pytest.approx(2.0, rel=0.01)


def test_who_met_a_wall_has_no_figure_and_is_told_of() -> None:
    why = "zookeeper-1 ended: java.lang.OutOfMemoryError"
    claims = [wall(each, why) if each.driver == "zookeeper" else each for each in _claims(0.25)]
    for line in against_table("", _compared(claims)).lines:
        assert line[1:6] == ["walls", f"wall: {why}", "measured", "–", "–"]


def test_what_failed_is_no_speed() -> None:
    claims = [
        replace(each, errors=Counter({"unfinished": each.count})) if each.driver == "hbase" else each
        for each in _claims(4.0)
    ]
    assert _verdicts(claims) == ["noise unknown"] * 2
    assert all(
        "of the operations failed" in note or "operations failed" in note
        for each in _compared(claims)
        for note in each.notes
    )


def test_a_closed_loop_of_less_than_a_second_tells_nothing() -> None:
    assert _verdicts([replace(each, seconds=0.9) for each in _claims(4.0)]) == ["too short to tell"] * 2


def _offered(tails: Tails) -> list[Measurement]:
    """Return a load at an offered rate, with known times in each round."""
    return [
        timed(replace(each, seconds=1.0, errors=Counter()), tails[each.driver][each.round])
        for each in three_backends().measurements
        if each.workload.is_open_loop and each.workload.topics == 3000 and each.driver in tails
    ]


@pytest.mark.parametrize(
    ("tails", "better", "verdict"),
    [
        (LONGER, LONGER_OVER_ALL, Relation.LESS),
        (CONTRARY, CONTRARY_OVER_ALL, Relation.MIXED),
        (EVEN, None, Relation.MIXED),
    ],
)
def test_the_factor_of_a_percentile_is_that_of_all_times_together(
    tails: Tails, better: float | None, verdict: Relation
) -> None:
    compared = _compared(_offered(tails))
    assert compared
    for each in compared:
        assert each.figures is not None
        assert each.figures[0].name == "response p99, ms"
        assert [each.better(ratio) for ratio in each.ratios] == pytest.approx([OF_ROUNDS] * 3, rel=0.01)
        assert each.difference is not None
        assert each.difference.ratio is not None
        assert each.difference.verdict is verdict
        if better is not None:
            assert each.better(each.difference.ratio) == pytest.approx(better, rel=0.01)
