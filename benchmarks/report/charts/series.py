"""One picture of a step second by second: what was done, how long it took, and what servers used meanwhile.

A stall that hides in a window's percentiles shows there, and whether servers were at work, or had no memory left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hedwig.benchmarks.load.workloads import FILL, RESTART
from hedwig.benchmarks.report.charts.drawing import GREY, Palette, as_chart, canvas, ladder_ticks, titled
from hedwig.benchmarks.report.charts.growth import Stage
from hedwig.benchmarks.report.compare.figures import good
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.words import driver_title, load_words, ms
from hedwig.histograms import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["series_chart"]

_MIB: Final = 1 << 20
_NOTHING: Final = 0.2
"""Where counts of 0 are drawn, since logarithms have no place for them."""
_WIDTH: Final = 9.9
_HAPPENED: Final = ("finished", "failed", "refused")
"""What tells of a second in which a load was at work."""
_LEFT, _ACROSS = 0.07, 0.915
_LOWEST_IN, _APART_IN, _PANEL_IN, _HEAD_IN = 2.27, 1.386, 1.05, 0.93
"""Below the lowest panel stand the names of loads, above the highest one the title."""


@dataclass(frozen=True, slots=True)
class _Second:
    """A whole second of a load; None where it is not known.

    retried: attempts that others were faster than.
    """

    rate: float
    p99_us: float | None
    cores: float | None
    memory_mib: float | None
    written_mib: float | None
    failed: float
    retried: float | None


@dataclass(frozen=True, slots=True)
class _Panel:
    """One of the curves, over all loads.

    is_count: of what may be 0 in most seconds and thousands in one. is_rare: not drawn if it never happened.
    """

    text: str
    of: Callable[[_Second], float | None]
    is_logarithmic: bool = False
    is_count: bool = False
    is_rare: bool = False

    def is_drawn(self, seconds: Iterable[_Second]) -> bool:
        values = (self.of(each) for each in seconds)
        return any(value if self.is_rare else value is not None for value in values)


_PANELS: Final = (
    _Panel("operations/s", lambda each: each.rate, is_logarithmic=True, is_count=True),
    _Panel("p99, ms", lambda each: None if each.p99_us is None else each.p99_us / 1000, is_logarithmic=True),
    _Panel("failed/s", lambda each: each.failed, is_logarithmic=True, is_count=True, is_rare=True),
    _Panel(
        "tried again/s, as others were faster",
        lambda each: each.retried,
        is_logarithmic=True,
        is_count=True,
        is_rare=True,
    ),
    _Panel("servers' processors", lambda each: each.cores),
    _Panel("servers' resident MiB", lambda each: each.memory_mib),
    _Panel("MiB/s that servers wrote to disks", lambda each: each.written_mib),
)

_Loads: TypeAlias = Mapping[str, Mapping[tuple[int, str], Sequence[_Second]]]
"""By load, then by round and backend."""


def series_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Draw the loads of a step one after the other, each backend over the other; None if all are too short.

    The step is the largest one at which most backends have loads. Rounds of a load stand beside each other. Warm-ups
    are in it; seconds that a load did not fill are not. Failures and retries have a panel only if there were any.
    """
    measured = [each for each in good(stage.measurements) if each.workload.name not in (FILL, RESTART)]
    backends: dict[int, set[str]] = {}
    for each in measured:
        backends.setdefault(each.workload.topics, set()).add(each.driver)
    topics = max(backends, key=lambda each: (len(backends[each]), each), default=0)
    chosen = [each for each in measured if each.workload.topics == topics]
    loads: dict[str, dict[tuple[int, str], list[_Second]]] = {}
    for each in chosen:
        if seconds := _seconds_of(each):
            load = f"{each.workload.name}, {load_words(each.workload)}"
            loads.setdefault(load, {})[each.round, each.driver] = seconds
    if not loads:
        return None
    title = f"Second by second, {topics:,} topics"
    shown = [panel for panel in _PANELS if panel.is_drawn(_all_of(loads))]
    height = _LOWEST_IN + _APART_IN * (len(shown) - 1) + _PANEL_IN + _HEAD_IN
    with canvas(_WIDTH, height) as figure:
        titled(figure, title, f"{stage.words}; the rounds of a load beside each other; lines are whole seconds")
        panels = [
            figure.add_axes((_LEFT, (_LOWEST_IN + _APART_IN * above) / height, _ACROSS, _PANEL_IN / height))
            for above in reversed(range(len(shown)))
        ]
        end = 0
        ticks: list[tuple[float, str]] = []
        for load, parts in loads.items():
            begin = end
            for number in sorted({number for number, _ in parts}):
                own = {driver: seconds for (at, driver), seconds in parts.items() if at == number}
                for driver, seconds in own.items():
                    for axes, panel in zip(panels, shown, strict=True):
                        _draw(axes, panel, seconds, end, palette.ink(driver).colour)
                end += max(map(len, own.values()))
            ticks.append(((begin + end) / 2, load))
            for axes in panels:
                axes.axvline(end, color=GREY, linewidth=0.5, alpha=0.6)
        for axes, panel in zip(panels, shown, strict=True):
            _finish(axes, panel, end)
        panels[-1].set_xticks([at for at, _ in ticks], [text for _, text in ticks], rotation=50, ha="right", fontsize=7)
        x = 1 - 0.02
        for name in reversed(list(dict.fromkeys(each.driver for each in chosen))):
            ink = palette.ink(name)
            written = figure.text(
                x, 1 - 0.21 / height, driver_title(name), color=ink.colour, fontweight="bold", ha="right", va="top"
            )
            x -= written.get_window_extent().width / (_WIDTH * figure.dpi) + 0.02
        return as_chart(figure, name=f"series-{stage.name}", title=title, says=f"{_worst(title, loads)} {_lost(loads)}")


def _seconds_of(measurement: Measurement) -> list[_Second]:
    """Return the seconds from the first one on that were whole."""
    series = measurement.series
    is_retry_known = any("refused" in noted for noted in series.values())
    done = [second for second, noted in series.items() if any(noted.get(name) for name in _HAPPENED)]
    workload = measurement.workload
    last = max(done, default=0) if workload.is_bounded else min(max(done, default=0) + 1, int(workload.seconds))
    return [
        _second(series.get(second - 1, {}), series.get(second, {}), is_retry_known=is_retry_known)
        for second in range(last)
    ]


def _second(before: Mapping[str, Any], noted: Mapping[str, Any], *, is_retry_known: bool) -> _Second:
    servers = [name for name, usage in noted.items() if isinstance(usage, Mapping) and name != "client"]
    times = Histogram.decode(noted["response"]) if "response" in noted else Histogram()
    is_known = bool(servers) and all(name in before for name in servers)

    def grown(what: str) -> float:
        return float(sum(noted[name][what] - before[name][what] for name in servers))

    return _Second(
        rate=float(noted.get("finished", 0)),
        p99_us=times.percentile_us(99) if times.count else None,
        cores=grown("cpu_s") if is_known else None,
        memory_mib=sum(noted[name]["rss_bytes"] for name in servers) / _MIB if servers else None,
        written_mib=grown("written_bytes") / _MIB if is_known else None,
        failed=float(noted.get("failed", 0)),
        retried=float(noted.get("refused", 0)) if is_retry_known else None,
    )


def _all_of(loads: _Loads) -> Iterator[_Second]:
    return (each for parts in loads.values() for seconds in parts.values() for each in seconds)


def _draw(axes: "Axes", panel: _Panel, seconds: Sequence[_Second], begin: int, colour: str) -> None:
    values = [panel.of(each) for each in seconds]
    if panel.is_count:
        values = [_NOTHING if value == 0 else value for value in values]
    known = [(begin + place + 0.5, value) for place, value in enumerate(values) if value is not None]
    axes.plot([x for x, _ in known], [y for _, y in known], ".-", color=colour, linewidth=1.1, markersize=3)


def _finish(axes: "Axes", panel: _Panel, end: int) -> None:
    axes.set_xlim(0, end)
    axes.set_xticks([])
    axes.tick_params(axis="y", labelsize=8)
    if panel.is_logarithmic:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = [tick for tick in ladder_ticks(low, high) if low <= tick <= high]
        ticks = [_NOTHING, *(tick for tick in ticks if tick >= 1)] if low <= _NOTHING and panel.is_count else ticks
        axes.set_yticks(ticks, ["0" if tick == _NOTHING else f"{tick:,.6g}" for tick in ticks])
        axes.minorticks_off()
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # A line that is even all the time would lie on the border.
    axes.text(0, 1.04, panel.text, transform=axes.transAxes, fontsize=9, fontweight="bold", va="bottom")


def _worst(title: str, loads: _Loads) -> str:
    """Return each backend's worst second, of all loads."""
    worst: dict[str, tuple[float, str]] = {}
    for load, parts in loads.items():
        for (number, driver), seconds in parts.items():
            for place, each in enumerate(seconds):
                if each.p99_us is not None and each.p99_us > worst.get(driver, (0.0, ""))[0]:
                    where = f"{load}, round {number}, second {place + 1}, {each.rate:,.0f} operations done"
                    worst[driver] = each.p99_us, where
    told = [f"{driver_title(driver)} {ms(us)} ms ({where})" for driver, (us, where) in worst.items()]
    return f"{title}. The second with the longest p99: {'; '.join(told)}."


def _lost(loads: _Loads) -> str:
    """Return how many operations failed in the seconds that are drawn, and how many attempts were repeated."""
    seconds = list(_all_of(loads))
    failed = sum(each.failed for each in seconds)
    known = [each.retried for each in seconds if each.retried is not None]
    told = [f"In the seconds drawn {failed:,.0f} operations failed" if failed else "No operation failed"]
    if sum(known):
        told.append(f"{sum(known):,.0f} attempts were repeated since others were faster")
    elif known:
        told.append("none was tried again because others were faster")
    if len(known) < len(seconds):
        told.append(f"what was tried again the file does not tell second by second{' of all loads' if known else ''}")
    return f"{'; '.join(told)}."
