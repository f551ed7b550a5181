"""One picture of a step second by second: what was done, how long it took, and what servers used meanwhile.

A stall that hides in a window's percentiles shows there, and whether servers were at work, or had no memory left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.compare_figures import good
from benchmarks.metadata_suite import FILL, RESTART
from benchmarks.report_drawing import GREY, Palette, as_chart, canvas, ladder_ticks, titled
from benchmarks.report_growth import Stage
from benchmarks.report_page import Chart
from benchmarks.report_words import driver_title, load_words, ms
from benchmarks.results import Measurement
from hedwig.histograms import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["series_chart"]

_MIB: Final = 1 << 20
_NOTHING: Final = 0.2
"""Where no operations are drawn, since logarithms have no place for them."""
_WIDTH: Final = 9.9
_HEIGHT: Final = 8.4
_PANELS: Final = ("operations/s", "p99, ms", "servers' processors", "servers' resident MiB")
_LEFT, _ACROSS = 0.07, 0.915
_LOWEST, _APART, _PANEL = 0.27, 0.165, 0.125


@dataclass(frozen=True, slots=True)
class _Second:
    """A whole second of a load; None where it is not known."""

    rate: float
    p99_us: float | None
    cores: float | None
    memory: float | None


def series_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Draw the loads of a step one after the other, each backend over the other; None if all are too short.

    The step is the largest one at which most backends have loads. Rounds of a load stand beside each other. Warm-ups
    are in it; seconds that a load did not fill are not.
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
    with canvas(_WIDTH, _HEIGHT) as figure:
        titled(figure, title, f"{stage.words}; the rounds of a load beside each other; lines are whole seconds")
        panels = [
            figure.add_axes((_LEFT, _LOWEST + _APART * (len(_PANELS) - 1 - place), _ACROSS, _PANEL))
            for place in range(len(_PANELS))
        ]
        end = 0
        ticks: list[tuple[float, str]] = []
        for load, parts in loads.items():
            begin = end
            for number in sorted({number for number, _ in parts}):
                own = {driver: seconds for (at, driver), seconds in parts.items() if at == number}
                for driver, seconds in own.items():
                    _draw(panels, seconds, end, palette.ink(driver).colour)
                end += max(map(len, own.values()))
            ticks.append(((begin + end) / 2, load))
            for axes in panels:
                axes.axvline(end, color=GREY, linewidth=0.5, alpha=0.6)
        for axes, text in zip(panels, _PANELS, strict=True):
            _finish(axes, text, end)
        panels[-1].set_xticks([at for at, _ in ticks], [text for _, text in ticks], rotation=50, ha="right", fontsize=7)
        x = 1 - 0.02
        for name in reversed(list(dict.fromkeys(each.driver for each in chosen))):
            ink = palette.ink(name)
            shown = figure.text(x, 0.975, driver_title(name), color=ink.colour, fontweight="bold", ha="right", va="top")
            x -= shown.get_window_extent().width / (_WIDTH * figure.dpi) + 0.02
        return as_chart(figure, name=f"series-{stage.name}", title=title, says=_says(title, loads))


def _seconds_of(measurement: Measurement) -> list[_Second]:
    """Return the seconds from the first one on that were whole."""
    series = measurement.series
    done = [second for second, noted in series.items() if noted.get("finished") or noted.get("failed")]
    workload = measurement.workload
    last = max(done, default=0) if workload.is_bounded else min(max(done, default=0) + 1, int(workload.seconds))
    return [_second(series.get(second - 1, {}), series.get(second, {})) for second in range(last)]


def _second(before: Mapping[str, Any], noted: Mapping[str, Any]) -> _Second:
    servers = [name for name, usage in noted.items() if isinstance(usage, Mapping) and name != "client"]
    times = Histogram.decode(noted["response"]) if "response" in noted else Histogram()
    is_known = bool(servers) and all(name in before for name in servers)
    return _Second(
        rate=float(noted.get("finished", 0)),
        p99_us=times.percentile_us(99) if times.count else None,
        cores=sum(noted[name]["cpu_s"] - before[name]["cpu_s"] for name in servers) if is_known else None,
        memory=sum(noted[name]["rss_bytes"] for name in servers) / _MIB if servers else None,
    )


def _draw(panels: Sequence["Axes"], seconds: Sequence[_Second], begin: int, colour: str) -> None:
    drawn: Sequence[Sequence[float | None]] = (
        [each.rate or _NOTHING for each in seconds],
        [None if each.p99_us is None else each.p99_us / 1000 for each in seconds],
        [each.cores for each in seconds],
        [each.memory for each in seconds],
    )
    for axes, values in zip(panels, drawn, strict=True):
        known = [(begin + place + 0.5, value) for place, value in enumerate(values) if value is not None]
        axes.plot([x for x, _ in known], [y for _, y in known], ".-", color=colour, linewidth=1.1, markersize=3)


def _finish(axes: "Axes", text: str, end: int) -> None:
    axes.set_xlim(0, end)
    axes.set_xticks([])
    axes.tick_params(axis="y", labelsize=8)
    if text in _PANELS[:2]:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        ticks = [tick for tick in ladder_ticks(low, high) if low <= tick <= high]
        ticks = [_NOTHING, *(tick for tick in ticks if tick >= 1)] if low <= _NOTHING and text == _PANELS[0] else ticks
        axes.set_yticks(ticks, ["0" if tick == _NOTHING else f"{tick:,.6g}" for tick in ticks])
        axes.minorticks_off()
    else:
        axes.set_ylim(0, None)
    axes.text(0, 1.04, text, transform=axes.transAxes, fontsize=9, fontweight="bold", va="bottom")


def _says(title: str, loads: Mapping[str, Mapping[tuple[int, str], Sequence[_Second]]]) -> str:
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
