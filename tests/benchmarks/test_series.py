"""Prove that a stall of a second shows in the picture of a step, and is named."""

from typing import Any

from benchmarks.report_drawing import Palette
from benchmarks.report_growth import stages_of
from benchmarks.report_series import series_chart
from benchmarks.results import Measurement
from benchmarks.workloads import Workload
from hedwig.histograms import Histogram

STALLED = 2


def _load(driver: str, *, topics: int = 1000, seconds: float = 4.0, stalls: bool = False) -> Measurement:
    """Return a load at a fixed rate, of operations of 2 ms; in a stall hardly any ends, and they take 900 ms."""
    workload = Workload(
        name="subscribe",
        mix={"create-subscription": 1.0},
        topics=topics,
        subscribers=1,
        rate_per_s=500.0,
        seconds=seconds,
        warmup_s=0.0,
    )
    measured = Measurement(workload=workload, driver=driver, on="synced", round=1, count=1000, seconds=seconds)
    for second in range(int(seconds) + 1):
        is_stalled = stalls and second == STALLED
        times = Histogram(2)
        times.record(900_000 if is_stalled else 2_000, 3 if is_stalled else 500)
        noted: dict[str, Any] = {"finished": times.count, "failed": 0, "response": times.encode()}
        usage = {"rss_bytes": 100 << 20, "cpu_s": 0.5 * second, "written_bytes": 0}
        measured.series[second] = noted | {"server": usage, "client": usage}
    return measured


def test_the_worst_second_of_each_backend_is_named() -> None:
    (stage,) = stages_of([_load("zookeeper", stalls=True), _load("hbase"), _load("hbase", topics=9000)])
    chart = series_chart(stage, Palette())
    assert chart is not None
    assert chart.name == "series-synced-1"
    assert chart.title == "Second by second, 1,000 topics"  # At 9,000 there is one backend only.
    assert "ms (subscribe, 500/s offered, round 1, second 3, 3 operations done); HBase 2.0" in chart.says


def test_a_stall_is_drawn() -> None:
    (plain,) = stages_of([_load("hbase")])
    (stalled,) = stages_of([_load("hbase", stalls=True)])
    one, other = series_chart(plain, Palette()), series_chart(stalled, Palette())
    assert one is not None
    assert other is not None
    assert one.png != other.png


def test_loads_without_a_whole_second_are_not_drawn() -> None:
    (stage,) = stages_of([_load("hbase", seconds=0.6)])
    assert series_chart(stage, Palette()) is None
