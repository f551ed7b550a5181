"""The timeline of a takeover storm: what was published, how long it took, and when lost topics were served again."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.report.charts.drawing import GREY, as_chart, canvas, ladder_ticks, titled
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.words import ms
from hedwig.histograms import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["storm_chart"]

_SHARES: Final = 200
_PUBLISHED, _FAILED, _SERVED = "#7B3FA0", "#B8860B", "#1a1a1a"
"""None of them is a backend's, whose own store the storm is about."""


def storm_chart(measurement: Measurement, *, store: str, name: str, subtitle: str) -> Chart:
    """Draw one storm second by second, from before the kill until things were as before; `store`: of the metadata."""
    killed_s = measurement.values["killed_at_s"]
    seconds = sorted(measurement.series)[:-1]  # The last one is not a whole one.
    at = [second + 0.5 - killed_s for second in seconds]
    finished = [float(measurement.series[second].get("finished", 0)) for second in seconds]
    failed = [float(measurement.series[second].get("failed", 0)) for second in seconds]
    with canvas(8.6, 6.6) as figure:
        hubs = f"{measurement.values['hubs']:.0f} hubs"
        title = f"A hub is killed: {measurement.workload.topics:,} topics, {hubs}, metadata in {store}"
        titled(figure, title, subtitle)
        rates = figure.add_axes((0.10, 0.62, 0.86, 0.215))
        times = figure.add_axes((0.10, 0.355, 0.86, 0.20), sharex=rates)
        shares = figure.add_axes((0.10, 0.09, 0.86, 0.19), sharex=rates)
        rates.step(at, finished, where="mid", color=_PUBLISHED)
        rates.step(at, failed, where="mid", color=_FAILED, linestyle="--")
        rates.set_ylim(0, max([*finished, *failed, 1.0]) * 1.15)
        _headed(
            rates, (("published a second", _PUBLISHED), ("attempts that failed and were repeated, dashed", _FAILED))
        )
        _draw_times(times, measurement, seconds, at, _PUBLISHED)
        _draw_shares(shares, measurement, _SERVED, _PUBLISHED)
        for axes in (rates, times, shares):
            axes.axvline(0, color=GREY, linewidth=1.5)
            axes.axvline(measurement.values["all_served_s"], color=GREY, linewidth=1, linestyle=":")
            axes.tick_params(labelbottom=axes is shares)
        rates.annotate(
            "killed",
            (0, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -12),
            textcoords="offset points",
            fontsize=9.5,
            color=GREY,
        )
        rates.annotate(
            "all served",
            (measurement.values["all_served_s"], 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -12),
            textcoords="offset points",
            fontsize=9.5,
            color=GREY,
        )
        rates.set_xlim(at[0], at[-1])
        shares.set_xlabel("seconds from the kill")
        return as_chart(figure, name=name, title=title, says=f"Metadata in {store}. {_says(measurement)}")


def _headed(axes: "Axes", parts: Sequence[tuple[str, str]]) -> None:
    """Write what the curves of some axes are above them, in their colours."""
    x = 0.0
    for text, colour in parts:
        shown = axes.text(
            x, 1.04, text, transform=axes.transAxes, color=colour, fontweight="bold", fontsize=10, va="bottom"
        )
        box = shown.get_window_extent()
        x += (box.width + 30) / axes.get_window_extent().width


def _draw_times(
    axes: "Axes", measurement: Measurement, seconds: Sequence[int], at: Sequence[float], colour: str
) -> None:
    """Draw the 99th percentile of each second: exact, of that second's own histogram."""
    found = []
    for place, second in zip(at, seconds, strict=True):
        text = measurement.series[second].get("response")
        histogram = Histogram.decode(text) if text else Histogram()
        if histogram.count:
            found.append((place, max(histogram.percentile_us(99) / 1000, 0.01)))
    axes.set_yscale("log")
    axes.step([place for place, _ in found], [value for _, value in found], where="mid", color=colour)
    low, high = axes.get_ylim()
    ticks = ladder_ticks(low, high)
    axes.set_yticks(ticks, [ms(tick * 1000).removesuffix(".00").removesuffix(".0") for tick in ticks])
    axes.minorticks_off()
    _headed(axes, (("p99 of what was acknowledged in each second, ms, from when it was due", colour),))


def _draw_shares(axes: "Axes", measurement: Measurement, served: str, delivered: str) -> None:
    """Draw which share of the topics that were lost was served again, and delivered to again."""
    parts = []
    for name, colour, text in (
        ("served", served, "% of the lost topics served again"),
        ("delivered", delivered, "% delivered to again, dashed"),
    ):
        histogram = measurement.histograms.get(name)
        if histogram is None or not histogram.count:
            continue
        percentiles = [100 * step / _SHARES for step in range(1, _SHARES + 1)]
        by_share = histogram.percentiles_us(percentiles)
        xs = [0.0, *(by_share[share] / 1e6 for share in percentiles)]
        ys = [0.0, *percentiles]
        last = max(second for second in measurement.series) - measurement.values["killed_at_s"]
        axes.step([*xs, last], [*ys, 100.0], where="post", color=colour, linestyle="-" if name == "served" else "--")
        parts.append((text, colour))
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100])
    _headed(axes, parts)


def _says(measurement: Measurement) -> str:
    served = measurement.histograms.get("served", Histogram())
    in_use, idle = (int(measurement.values.get(f"{what}_of_killed", 0)) for what in ("used", "asked"))
    what = f"{in_use:,} topics in use" + (f" and {idle:,} others" if idle else "")
    text = (
        f"Session timeout {measurement.values['session_timeout_s']:g} s. Of the killed hub {what} were asked for, and "
        f"served again after {served.percentile_us(0) / 1e6:.1f} s (the first), "
        f"{served.percentile_us(50) / 1e6:.1f} s (half of them) and {served.max_us / 1e6:.1f} s (the last)."
    )
    if idle:
        text += " The others were asked for once, all of them right after it was killed."
    used = measurement.values.get("used_topics")
    if used and measurement.workload.is_open_loop:
        every_s = used / measurement.workload.rate_per_s
        text += (
            f" A topic in use is published to once in {every_s:.3g} s, and asked for only then, or when an attempt "
            "that failed is repeated: these times contain that wait."
        )
    delivered = measurement.histograms.get("delivered", Histogram())
    if delivered.count:
        text += f" The last subscriber was delivered to again after {delivered.max_us / 1e6:.1f} s."
    return text
