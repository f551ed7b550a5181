"""Prove what a report says and draws of takeover storms."""

import re

from hedwig.benchmarks.report.parts import report_page
from hedwig.benchmarks.runs.results import Result
from tests.benchmarks.support.pictures import BLUE, GREEN, ORANGE, picture, share
from tests.benchmarks.support.recorded_results import COMMITTED


def test_a_storm_has_no_colour_of_a_backend_and_says_how_often_topics_are_asked_for() -> None:
    page = report_page([("x", Result.read(COMMITTED / "takeover-80000-topics.json"))])
    (chart,) = page.charts()
    for colour in (BLUE, ORANGE, GREEN):
        assert share(picture(chart), colour) == 0
    assert "Metadata in HBase 2.6.1." in chart.says
    assert "the others" not in chart.says.lower(), "nobody asked for topics that were not in use"
    # 800 topics, 400 messages a second.
    assert "A topic in use is published to once in 2 s, and asked for only then" in chart.says


def test_a_storm_says_which_topics_were_asked_for_at_once() -> None:
    page = report_page([("x", Result.read(COMMITTED / "takeover-among-a-million.json"))])
    _, first, *_ = page.charts()
    assert re.search(r"Of the killed hub \d+ topics in use and 2,[45]\d{2} others were asked for", first.says)
    assert "The others were asked for once, all of them right after it was killed." in first.says


def test_storms_of_several_sizes_stand_beside_each_other() -> None:
    result = Result.read(COMMITTED / "takeover-among-a-million.json")
    sizes, *timelines = report_page([("x", result)]).charts()
    assert len(timelines) == len(result.measurements) == 6
    assert sizes.title == "A hub is killed: seconds until all its topics are served again"
    assert sizes.says == (
        "ZooKeeper: 14.0 s of 10,000 topics, 44.4 s of 100,000 topics, 397.9 s of 1,000,000 topics. "
        "HBase: 12.7 s of 10,000 topics, 29.8 s of 100,000 topics, 222.7 s of 1,000,000 topics."
    )
    for colour in (BLUE, ORANGE):
        assert share(picture(sizes), colour) > 0.001
    lost = next(each for each in result.measurements if each.on == "hbase" and each.workload.topics == 1_000_000)
    lost.wall, lost.count, lost.series = "the store could not be filled: it came to a standstill", 0, {}
    sizes, *timelines = report_page([("x", result)]).charts()
    assert len(timelines) == 5
    assert sizes.says.endswith("HBase met a wall at 1,000,000 topics: standstill.")
    # Of one size there is nothing to compare.
    result.measurements = result.measurements[:2]
    assert len(report_page([("x", result)]).charts()) == 2
