"""One picture of all rates of a ladder: small charts beside each other, one for each workload."""

import math
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.report.charts.curves import Axis, Curve, draw_curves
from hedwig.benchmarks.report.charts.drawing import GREY, Palette, as_chart, canvas, titled
from hedwig.benchmarks.report.charts.growth import Rates, Stage, lost_words, rates_of
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.words import driver_title, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["overview_chart"]

_COLUMNS: Final = 3
_WIDTH: Final = 9.9
_PANEL: Final = 2.55
_HEAD: Final = 0.85
_FOOT: Final = 0.25
_STRIP: Final = 0.14
_WALL_SIZE: Final = 8.0


def overview_chart(stage: Stage, palette: Palette) -> Chart | None:
    """Draw the rates of all workloads against topics; None if there are none."""
    found = rates_of(stage, palette)
    if not found:
        return None
    lines = math.ceil(len(found) / _COLUMNS)
    height = _HEAD + _PANEL * lines + _FOOT
    title = f"Rates against topics: {', '.join(driver_title(name) for name in stage.backends())}"
    with canvas(_WIDTH, height) as figure:
        titled(figure, title, f"{stage.words}; operations a second in closed loops, both axes logarithmic")
        _draw_legend(figure, stage, palette, height)
        for index, rates in enumerate(found):
            line, column = divmod(index, _COLUMNS)
            left = 0.065 + column * 0.322
            bottom = (_FOOT + (lines - 1 - line) * _PANEL + 0.3) / height
            axes = figure.add_axes((left, bottom, 0.255, (_PANEL - 0.75) / height))
            # What a wall was is said once; here its cross has the colour of who met it.
            curves = [_unnamed(curve) for curve in rates.curves]
            plain = Axis(label="", form=short_count)
            draw_curves(axes, curves, plain, plain, strip=_STRIP, wall_size=_WALL_SIZE)
            _small(axes)
            _named(axes, rates)
        has_walls = any(curve.walls for rates in found for curve in rates.curves)
        note = "x axis: topics; lines: lowest to highest round" + (
            "; a cross: a wall of that kind" if has_walls else ""
        )
        figure.text(0.02, 0.09 / height, note, fontsize=9, color=GREY)
        told = [f"{rates.words}: {rates.says}" for rates in found if rates.says]
        says = " ".join([f"{title}.", *told, *lost_words(stage)])
        return as_chart(figure, name=f"overview-{stage.name}", title=title, says=says)


def _draw_legend(figure: "Figure", stage: Stage, palette: Palette, height: float) -> None:
    x = 0.02
    for name in stage.backends():
        ink = palette.ink(name)
        shown = figure.text(
            x + 0.022, 1 - 0.78 / height, driver_title(name), color=ink.colour, fontweight="bold", va="center"
        )
        mark = figure.add_axes((x, 1 - 0.88 / height, 0.018, 0.2 / height))
        mark.plot([0], [0], ink.marker, color=ink.colour)
        mark.set_axis_off()
        x += 0.05 + shown.get_window_extent().width / (_WIDTH * figure.dpi)


def _unnamed(curve: Curve) -> Curve:
    return Curve(label="", ink=curve.ink, points=curve.points, walls=curve.walls)


def _named(axes: "Axes", rates: Rates) -> None:
    """Write what is drawn above some axes, in two lines: in one, a long name would run into the next chart."""
    lines = [(rates.name, "bold", "#1a1a1a", 9.5)]
    if rates.load_words:
        lines.insert(0, (rates.load_words, "normal", GREY, 8.5))
    for place, (text, weight, colour, size) in enumerate(lines):
        axes.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, 5 + 13 * place),
            textcoords="offset points",
            fontsize=size,
            fontweight=weight,
            color=colour,
        )


def _small(axes: "Axes") -> None:
    axes.tick_params(labelsize=8.5, length=2)
    for line in axes.lines:
        line.set_linewidth(1.7)
        line.set_markersize(min(line.get_markersize(), 5.5))
