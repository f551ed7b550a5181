"""Prove that rates are averaged as factors, and that percentiles are not averaged."""

from dataclasses import replace

import pytest

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.runs.cas_ratios import percentile_ratio, ratio
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.suites.metadata.tables import metadata_tables
from hedwig.histograms import Histogram

SLOW = {"zookeeper": {1: 2_000, 2: 100_000}, "hbase": {1: 113_000, 2: 5_000}}
"""Microseconds of the slowest two per cent in each round."""


def _measurement(driver: str, number: int, rate: float = 500.0, operations: int = 1000) -> Measurement:
    times = Histogram()
    times.record(1_000, operations - operations // 50)
    times.record(SLOW[driver][number], operations // 50)
    workload = Workload(name="subscribe", mix={"create-subscription": 1.0}, topics=20, subscribers=1, rate_per_s=500.0)
    return Measurement(
        workload=workload,
        driver=driver,
        on="synced",
        round=number,
        count=round(rate * 2),
        seconds=2.0,
        histograms={"service": times, "response": times},
        values={"refusals": 0.0},
    )


def _rounds(driver: str, *rates: float) -> list[Measurement]:
    return [_measurement(driver, number, rate) for number, rate in enumerate(rates, 1)]


def _beside(measurements: list[Measurement]) -> dict[int, Measurement]:
    return {each.round: each for each in measurements}


def test_the_ratio_of_a_percentile_is_that_of_all_times_together() -> None:
    """The ratios of the rounds are 0.05 and 56.5, whose mean is meaningless. Over all times it is 5 ms against 2."""
    mine, other = _rounds("hbase", 500, 500), _rounds("zookeeper", 500, 500)
    whole = [Histogram.merged(each.histograms["response"] for each in side).percentile_us(99) for side in (mine, other)]
    shown = percentile_ratio(mine, _beside(other), "response", 99)
    figures = [float(word) for word in shown.replace("(", "").replace(")", "").split(" ") if word != "–"]
    assert figures == pytest.approx([whole[0] / whole[1], 0.05, 56.5], abs=0.1)
    assert figures[0] == pytest.approx(2.5, abs=0.01)


def test_a_percentile_of_too_few_operations_has_no_ratio() -> None:
    mine, other = [_measurement("hbase", 1, operations=999)], [_measurement("zookeeper", 1)]
    assert percentile_ratio(mine, _beside(other), "response", 99) == "–"
    assert percentile_ratio(mine, _beside(other), "response", 50) == "1.00"
    assert percentile_ratio(mine, {}, "response", 50) == "–"
    assert percentile_ratio(mine, _beside(other), "delivery", 50) == "–"


def test_times_of_a_few_callers_have_no_ratio_while_others_waited() -> None:
    """500 operations a second, of a millisecond or two each, keep one of 64 callers at work."""
    mine, other = (
        [replace(each, workload=replace(each.workload, rate_per_s=0.0, in_flight=64)) for each in _rounds(driver, 500)]
        for driver in ("hbase", "zookeeper")
    )
    assert percentile_ratio(mine, _beside(other), "response", 50) == "–"
    for each in (*mine, *other):
        each.values["under_way_throughout"] = 0
    assert percentile_ratio(mine, _beside(other), "response", 50) == "1.00"


def test_the_ratio_of_rates_is_the_geometric_mean_of_the_rounds() -> None:
    mine, other = _rounds("hbase", 200, 50), _rounds("zookeeper", 100, 100)
    assert ratio(mine, _beside(other), lambda each: each.rate_per_s) == "1.00 (0.50 – 2.00)"
    assert ratio(mine[:1], _beside(other), lambda each: each.rate_per_s) == "2.00"
    assert ratio(mine, {}, lambda each: each.rate_per_s) == "–"


def test_the_tables_of_metadata_have_no_average_of_percentiles_and_no_time_that_was_not_seen() -> None:
    measured = [*_rounds("zookeeper", 500, 500), *_rounds("hbase", 500, 500)]
    for each in measured:
        each.values["servers_cpu_s"] = 0.0 if each.driver == "hbase" else 0.5
    ((_, columns, lines),) = metadata_tables(measured)
    by_driver = {line["backend"]: line for line in (dict(zip(columns, each, strict=True)) for each in lines)}
    expected = percentile_ratio(measured[2:], _beside(measured[:2]), "response", 99)
    assert by_driver["hbase"]["p99 × zookeeper"] == expected
    assert by_driver["hbase"]["servers' CPU µs"] == "–"
    assert by_driver["zookeeper"]["servers' CPU µs"] == "500"
