"""The chart of memory against topics: what lives in the heaps of a store's servers, and what its processes hold.

What a process holds is as much of its heap as its collector has touched, and so the heap's bound sooner or later,
whatever is in it. What is left after a full collection is what the records need.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from hedwig.benchmarks.load.workloads import RESTART
from hedwig.benchmarks.report.charts.curves import Axis, Curve, Point, Wall, curves_chart
from hedwig.benchmarks.report.charts.drawing import Palette
from hedwig.benchmarks.report.charts.growth import TOPICS, Stage, lost_words, says_at_the_end
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.walls import wall_kind
from hedwig.benchmarks.runs.words import driver_title, mib
from hedwig.benchmarks.stores.cases import MEMORY

__all__ = ["alive_words", "memory_chart"]

_MIB: Final = 1 << 20
_LIVE: Final = "store_live_heap_bytes"
_RESIDENT: Final = "store_rss_bytes_max"
_ALIVE: Final = "heap alive after a full collection"
_DOTTED: Final = "dotted: resident"
_HOLLOW: Final = "hollow: heap in use at a wall"


def alive_words(stage: Stage) -> str:
    """Return what lived in the heaps of each backend at the most topics; nothing if that is not known of any."""
    return says_at_the_end(stage, _measured_alive(stage), _ALIVE, mib, _live)


def memory_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Return what lives after a full collection, and what all processes held at the most, dotted, at each step.

    At a wall there was no such collection of all that was to be there: a hollow point is the heap that was in use then.
    A backend whose heaps are not known, or that has none, has the dotted curve only.
    """
    live = _measured_alive(stage)
    resident = _peaks(stage)
    curves: list[Curve] = []
    remarks: list[str] = []
    for backend in stage.backends():
        ink, label = palette.ink(backend), driver_title(backend)
        walls, in_use = _at_the_wall(stage, backend)
        points = _points([each for each in live if each.driver == backend], _live)
        held = _points([each for each in resident if each.driver == backend], _resident)
        if not points:
            curves.append(Curve(label=label, ink=ink, points=held, walls=walls, is_dotted=bool(live)))
            continue
        curves.append(Curve(label=label, ink=ink, points=[*points, *in_use], walls=walls))
        remarks += [_HOLLOW] if in_use else []
        if len(held) > 1:  # A point alone would be taken for one of what lives.
            curves.append(Curve(label="", ink=ink, points=held, is_dotted=True, has_marks=False))
            remarks.append(_DOTTED)
    how = "; ".join(sorted(set(remarks))) if live else "all its processes, resident, at the most"
    return curves_chart(
        name=f"memory-{stage.name}",
        title="Live heap of the store after a full collection" if live else "Memory of the store",
        subtitle=f"{stage.words}; {how}" if how else stage.words,
        says=_says(stage, live, resident, has_hollow=_HOLLOW in remarks),
        curves=curves,
        x=TOPICS,
        y=Axis(label="live MiB" if live else "resident MiB", ending=" MiB"),
    )


def _says(stage: Stage, live: Sequence[Measurement], resident: Sequence[Measurement], *, has_hollow: bool) -> str:
    hollow = "Hollow is the heap that was in use at a wall, garbage included, with fewer records than there were to be."
    parts = [
        says_at_the_end(stage, live, _ALIVE, mib, _live),
        says_at_the_end(stage, resident, "resident memory at the most", mib, _resident),
        *lost_words(stage),
        hollow if has_hollow else "",
    ]
    return " ".join(part for part in parts if part)


def _measured_alive(stage: Stage) -> list[Measurement]:
    return [each for each in stage.measurements if each.workload.name == RESTART and _LIVE in each.values]


def _peaks(stage: Stage) -> list[Measurement]:
    """Return of each backend and step the measurement in which its processes held the most."""
    peaks: list[Measurement] = []
    for backend in stage.backends():
        own = [each for each in stage.measurements if each.driver == backend and _RESIDENT in each.values]
        for topics in sorted({each.workload.topics for each in own}):
            peaks.append(max((each for each in own if each.workload.topics == topics), key=_resident))
    return peaks


def _points(own: Sequence[Measurement], value: Callable[[Measurement], float]) -> list[Point]:
    points = []
    for topics in sorted({each.workload.topics for each in own}):
        values = [value(each) for each in own if each.workload.topics == topics]
        points.append(Point(topics, statistics.median(values), min(values), max(values)))
    return points


def _at_the_wall(stage: Stage, backend: str) -> tuple[list[Wall], list[Point]]:
    """Return where a backend could not be filled, and how much of its heaps was in use then, if its servers told."""
    lost = stage.lost(backend)
    if lost is None or lost.wall is None:
        return [], []
    topics = lost.workload.topics
    used = [server["heap_used_bytes"] for server in lost.reported.get(MEMORY, ())]
    in_use = sum(size for size in used if size is not None) / _MIB
    points = [Point(topics, in_use, in_use, in_use, is_hollow=True)] if used and None not in used else []
    return [Wall(topics, wall_kind(lost.wall))], points


def _live(measurement: Measurement) -> float:
    return measurement.values[_LIVE] / _MIB


def _resident(measurement: Measurement) -> float:
    return measurement.values[_RESIDENT] / _MIB
