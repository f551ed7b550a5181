"""Prove that a report says what more topics cost each backend by itself."""

from dataclasses import replace

import pytest

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.report.charts.growth import Stage, stages_of
from hedwig.benchmarks.report.findings.kept import kept_table, kept_words
from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Measurement
from tests.benchmarks.support.recorded_results import three_backends


def _round(
    name: str, topics: int, count: int, *, driver: str = "hbase", seconds: float = 2.0, **more: float
) -> Measurement:
    workload = Workload(name=name, topics=topics, subscribers=1, in_flight=64, seconds=2.5, **more)  # type: ignore[arg-type]
    return Measurement(workload=workload, driver=driver, round=1, on="synced", count=count, seconds=seconds)


def _stage(*measurements: Measurement) -> Stage:
    (stage,) = stages_of(measurements)
    return stage


def test_rates_with_the_most_topics_stand_beside_those_with_the_fewest() -> None:
    stage = _stage(
        _round("consume", 10_000, 2_000),
        _round("consume", 100_000, 1_900),
        _round("consume", 1_000_000, 1_000),
        _round("claim", 10_000, 4_000),
        _round("claim", 1_000_000, 8_000),
    )
    table = kept_table(stage)
    assert table is not None
    assert table.columns == ["measured", "HBase: 10,000 topics", "1,000,000 topics", "×"]
    assert table.lines == [
        ["consume, 64 in flight", "1,000", "500", "0.50"],
        ["claim, 64 in flight", "2,000", "4,000", "2.00"],
    ]
    assert kept_words(stage) == (
        "What more topics cost each by itself, synced, 1 subscription a topic: HBase had, with 1,000,000 topics, 1.00 "
        "times its rates with 10,000 (the geometric mean of 2 loads, 0.50 to 2.00)"
        "."
    )


def test_a_backend_that_met_a_wall_is_told_of_as_far_as_it_came() -> None:
    stage = _stage(
        _round("consume", 10_000, 2_000),
        _round("consume", 10_000, 2_000, driver="zookeeper"),
        _round("consume", 100_000, 1_000, driver="zookeeper"),
        _round("consume", 1_000_000, 1_000),
        replace(_round("fill", 1_000_000, 5, driver="zookeeper"), wall="its heap is full"),
    )
    words = kept_words(stage)
    assert "HBase had, with 1,000,000 topics, 0.50 times" in words
    assert "ZooKeeper had, with 100,000 topics, 0.50 times" in words


@pytest.mark.parametrize("short", [0, 1])
def test_a_round_that_was_too_short_tells_nothing(short: int) -> None:
    seconds = [2.0, 2.0]
    seconds[short] = 0.1
    stage = _stage(
        *(_round("claim", topics, 500, seconds=s) for topics, s in zip((10_000, 100_000), seconds, strict=True))
    )
    table = kept_table(stage)
    assert table is not None
    assert [line[-1] for line in table.lines] == ["too short to tell"]
    assert not kept_words(stage)


def test_offered_rates_fills_and_single_steps_are_not_told() -> None:
    offered = [_round("consume", topics, 1_000, rate_per_s=500.0) for topics in (10_000, 100_000)]
    fills = [_round("fill", topics, 1_000) for topics in (10_000, 100_000)]
    for stage in (_stage(*offered, *fills), _stage(_round("consume", 10_000, 5)), _stage(*offered)):
        assert kept_table(stage) is None
        assert not kept_words(stage)


def test_a_report_has_it_in_short_and_in_full() -> None:
    result = three_backends()
    # Its rounds are too short to tell anything.
    result.measurements = [
        replace(each, count=10 * each.count, seconds=10 * each.seconds)
        for each in result.measurements
        if each.workload.name in ("fill", "read-owner")
    ]
    page = report_page([("x", result)])
    short = next(section for section in page.sections if section.title.endswith("In short"))
    told = [each for each in short.says if each.startswith("What more topics cost each by itself, synced")]
    assert len(told) == 1
    assert all(f"{name} had, with" in told[0] for name in ("SQLite", "ZooKeeper", "HBase"))
    (table,) = [table for section in page.sections for table in section.tables if table.title.endswith("a second")]
    assert table.title == "synced, 1 subscription a topic: operations a second"
    assert {line[0] for line in table.lines} == {"read-owner, 64 in flight"}
