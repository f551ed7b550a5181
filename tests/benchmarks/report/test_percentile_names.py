"""Prove that a picture names the percentile at which its curves end as people do."""

import pytest

from hedwig.benchmarks.report.charts.latency import percentile_name


@pytest.mark.parametrize(
    ("depth", "name"),
    [(1.0, "p90"), (1.167, "p93"), (2.0, "p99"), (2.3, "p99.4"), (3.0, "p99.9"), (3.5, "p99.96"), (4.0, "p99.99")],
)
def test_percentile_is_named_with_a_digit_for_each_nine(depth: float, name: str) -> None:
    assert percentile_name(depth) == name
