"""Prove that benchmark results are taken together only where the same was measured, and percentiles never averaged."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from hedwig.histograms import Histogram
from hedwig.pipeline.audit.bench_results import measurements, medians

_WORKLOAD = {"name": "publish", "topics": 50, "in_flight": 100, "seed": 1}


def _histogram(*times_us: int) -> str:
    histogram = Histogram()
    histogram.record_all(times_us)
    return histogram.encode()


def _round(number: int, count: int, times_us: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    workload: Mapping[str, Any] = _WORKLOAD | more.pop("workload", {})
    histograms = {"response": _histogram(*times_us)} if times_us else {}
    return {
        "workload": workload,
        "driver": "client",
        "round": number,
        "count": count,
        "seconds": 2.0,
        "errors": {},
        "histograms": histograms,
        **more,
    }


def _figures(spark: SparkSession, directory: Path, *rounds: dict[str, Any]) -> list[Row]:
    file = directory / "result.json"
    content = {"format": 1, "program": "hedwig-bench hub", "started": "2026-01-01T00:00:00", "measurements": rounds}
    file.write_text(json.dumps(content))
    return medians(measurements(spark, [str(file)])).collect()


def test_percentiles_are_those_of_all_times_of_all_rounds(spark: SparkSession, tmp_path: Path) -> None:
    slow, fast = (100_000,) * 3, (1_000,) * 97
    (row,) = _figures(spark, tmp_path, _round(1, 10, slow), _round(2, 30, fast), _round(3, 20))
    assert (row["rounds"], row["rate_per_s"]) == (3, 10.0)
    assert row["p50_ms"] == pytest.approx(1, rel=0.001)
    assert row["p99_ms"] == pytest.approx(100, rel=0.001), "the median of the rounds' would be between the two"


def test_loads_that_differ_are_not_taken_together(spark: SparkSession, tmp_path: Path) -> None:
    different: list[Mapping[str, Any]] = [
        {},
        {"message_bytes": 1024},
        {"subscribers": 10},
        {"rate_per_s": 500.0},
        {"choice": "zipf"},
        {"wide": 100},
    ]
    rounds = [_round(number, 10 * number, workload=load) for number, load in enumerate(different, 1)]
    # What an older file does not say is what it was.
    usual = {"message_bytes": 100, "subscribers": 0, "rate_per_s": 0.0, "choice": "turns", "wide": 0, "first": 0}
    rows = _figures(spark, tmp_path, *rounds, _round(9, 30, workload=usual))
    assert {row["details"]: (row["rounds"], row["rate_per_s"]) for row in rows} == {
        "": (2, 10.0),
        "message_bytes=1024": (1, 10.0),
        "subscribers=10": (1, 15.0),
        "rate_per_s=500": (1, 20.0),
        "choice=zipf": (1, 25.0),
        "wide=100": (1, 30.0),
    }


def test_memory_is_that_of_the_round_that_had_most_and_walls_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    (row,) = _figures(
        spark,
        tmp_path,
        _round(1, 10, values={"bytes_max": 1000.0}),
        _round(2, 10, values={"rss_bytes_max": 3000.0}),
        _round(3, 10, values={"bytes_max": 9000.0}, wall="its heap was full"),
    )
    assert (row["rounds"], row["peak_bytes"], row["p50_ms"]) == (2, 3000, None)


def test_a_histogram_that_cannot_be_read_ends_it(spark: SparkSession, tmp_path: Path) -> None:
    broken = _round(1, 10) | {"histograms": {"response": "HISTxyz"}}
    with pytest.raises(PySparkException, match=r"result\.json has a histogram that cannot be read"):
        _figures(spark, tmp_path, broken)
