"""The chart of `hedwig-bench hub publish` over numbers of topics: what an active topic costs a hub on bookies."""

from collections.abc import Callable
from typing import Final

from hedwig.benchmarks.charts.charts import grid_chart
from hedwig.benchmarks.charts.drawing import Palette
from hedwig.benchmarks.charts.measured import curves_of
from hedwig.benchmarks.charts.sections import Section
from hedwig.benchmarks.runs.results import Measurement, Result
from hedwig.benchmarks.runs.words import side_words
from hedwig.benchmarks.suites.hub.sizes import CLUSTER, PUBLISH, SHARED

__all__ = ["FIRST_PUBLISHES", "TOPIC_BYTES", "ZOOKEEPER_WRITES", "active_topics_sections"]

FIRST_PUBLISHES: Final = "first_publishes_per_s"
"""Of a measurement: how fast each topic of the load got its first message, before the load began."""
TOPIC_BYTES: Final = "active_topic_bytes"
"""Of a measurement: by how much the hub's memory grew with these first messages, for each topic."""
ZOOKEEPER_WRITES: Final = "zookeeper_writes"
"""Of a measurement: the transactions of ZooKeeper from the first of these messages to the end of the load."""

_POINTS_MIN: Final = 3
_CELLS: Final[tuple[tuple[str, int, Callable[[Measurement], float]], ...]] = (
    ("publishes a second", 1, lambda each: each.rate_per_s),
    ("first publishes a second", 100, lambda each: each.values[FIRST_PUBLISHES]),
    ("ZooKeeper transactions", 1, lambda each: each.values[ZOOKEEPER_WRITES]),
    ("hub memory a topic, bytes", 10_000, lambda each: max(1.0, each.values[TOPIC_BYTES])),
)
"""What the charts show, and of how many topics on. What fewer topics take is lost in what a hub takes for itself."""
_SIDES: Final = {SHARED: "one log for all topics", CLUSTER: "a ledger for each topic"}


def active_topics_sections(result: Result) -> list[Section]:
    """Return a section with one chart for each load that was measured on hubs on bookies at three numbers of topics."""
    measured = [
        each for each in result.measurements if each.workload.name == PUBLISH and ZOOKEEPER_WRITES in each.values
    ]
    loads: dict[tuple[str, float, int, int], list[Measurement]] = {}
    for each in measured:
        loads.setdefault(_load(each), []).append(each)
    charts = []
    for number, alike in enumerate(loads.values(), 1):
        if len({each.workload.topics for each in alike}) < _POINTS_MIN:
            continue
        workload = alike[0].workload
        said = (
            f"{alike[0].driver}: {workload.message_bytes:,} B a message, {workload.in_flight:,} in flight; metadata in "
            f"{result.terms.get('metadata of our hub', '')}"
        )
        cells = [
            (title, curves_of([each for each in alike if each.workload.topics >= least], _topics, value, side=_side))
            for title, least, value in _CELLS
        ]
        chart = grid_chart(
            f"active-topics-{number}", "What active topics cost, by their number", said, cells, Palette()
        )
        charts += [chart] if chart is not None else []
    return [Section(title="Active topics", charts=charts)] if charts else []


def _load(each: Measurement) -> tuple[str, float, int, int]:
    workload = each.workload
    return each.driver, workload.rate_per_s, workload.message_bytes, workload.in_flight


def _topics(each: Measurement) -> float:
    return each.workload.topics


def _side(each: Measurement) -> str:
    return _SIDES.get(each.on) or side_words(each)
