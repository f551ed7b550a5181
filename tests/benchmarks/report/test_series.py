"""Prove that a stall of a second shows in the picture of a step, and is named; as do failures, retries and writing."""

from typing import Any

import pytest

from hedwig.benchmarks.load.workloads import Workload
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.growth import stages_of
from hedwig.benchmarks.report.charts.series import series_chart
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement
from hedwig.histograms import Histogram

STALLED = 2
PANEL_PX = 207.9
"""A panel is so much of a picture's height, and what stands between it and the next one."""


def _load(
    driver: str,
    *,
    topics: int = 1000,
    seconds: float = 4.0,
    stalls: bool = False,
    failed: int = 0,
    refused: int | None = 0,
    written: int = 0,
) -> Measurement:
    """Return a load at a fixed rate, of operations of 2 ms; in a stall hardly any ends, and they take 900 ms.

    failed, refused: so many in the second that may stall; None: an older version that did not tell. written: so many
    bytes of the server in each second.
    """
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
        if second == STALLED:
            noted["failed"] = failed
        if refused is not None:
            noted["refused"] = refused if second == STALLED else 0
        usage = {"rss_bytes": 100 << 20, "cpu_s": 0.5 * second, "written_bytes": 0}
        measured.series[second] = noted | {"server": usage | {"written_bytes": written * second}, "client": usage}
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


def _drawn(*loads: Measurement) -> Chart:
    (stage,) = stages_of(loads)
    chart = series_chart(stage, Palette())
    assert chart is not None
    return chart


def test_what_servers_wrote_is_drawn() -> None:
    assert _drawn(_load("hbase")).png != _drawn(_load("hbase", written=5 << 20)).png


def test_failures_and_retries_have_a_panel_only_if_there_were_any() -> None:
    plain = _drawn(_load("hbase"), _load("zookeeper"))
    assert plain.says.endswith(". No operation failed; none was tried again because others were faster.")
    failing = _drawn(_load("hbase", failed=7), _load("zookeeper"))
    assert failing.height - plain.height == pytest.approx(PANEL_PX, abs=2)
    assert ". In the seconds drawn 7 operations failed; none was tried again" in failing.says
    both = _drawn(_load("hbase", failed=7), _load("zookeeper", refused=1200))
    assert both.height - plain.height == pytest.approx(2 * PANEL_PX, abs=2)
    assert "7 operations failed; 1,200 attempts were repeated since others were faster." in both.says


def test_of_older_files_nobody_says_that_nothing_was_tried_again() -> None:
    older = _drawn(_load("hbase", refused=None))
    assert older.height == _drawn(_load("hbase")).height
    assert older.says.endswith("No operation failed; what was tried again the file does not tell second by second.")
    mixed = _drawn(_load("hbase", refused=None), _load("zookeeper", refused=3))
    assert "; 3 attempts were repeated" in mixed.says
    assert mixed.says.endswith("; what was tried again the file does not tell second by second of all loads.")


def test_a_store_without_servers_has_no_panels_of_theirs() -> None:
    alone = _load("sqlite")
    for noted in alone.series.values():
        del noted["server"]
    assert _drawn(_load("hbase")).height - _drawn(alone).height == pytest.approx(3 * PANEL_PX, abs=2)


def test_loads_without_a_whole_second_are_not_drawn() -> None:
    (stage,) = stages_of([_load("hbase", seconds=0.6)])
    assert series_chart(stage, Palette()) is None
