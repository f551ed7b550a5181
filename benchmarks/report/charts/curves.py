"""Charts of curves: a figure of each side against topics, callers or percentiles; walls are marked where they stood."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.report.charts.drawing import GREY, Ink, as_chart, canvas, ladder_ticks, place_labels, titled
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.words import count, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Axis", "Curve", "Point", "Wall", "curves_chart", "draw_curves"]

_WIDTH: Final = 6.6
_HEIGHT: Final = 4.3
_ZEROS: Final = re.compile(r"\.0+(?!\d)")
_WALL_SIZE: Final = 9.5
_STRIP: Final = 0.075
"""The height of a wall's mark, as a share of the axes: below all curves, one above the other."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure, with the lowest and highest of its rounds. `is_hollow`: it is not what it seems, as the chart says."""

    x: float
    y: float
    low: float
    high: float
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Wall:
    """Where a side could not be measured, and what kept it from that, in a word or two."""

    x: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One side. `label`: what stands at its end; none of a curve that goes with another one."""

    label: str
    ink: Ink
    points: Sequence[Point]
    walls: Sequence[Wall] = ()
    is_dotted: bool = False
    has_marks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """How one direction is drawn. `ticks`: where, and what is written there; by default as its numbers are.

    ending: what follows the number at the end of a curve.
    """

    label: str
    ending: str = ""
    is_log: bool = True
    ticks: Sequence[tuple[float, str]] = ()
    form: Callable[[float], str] = count


def curves_chart(
    *, name: str, title: str, subtitle: str, says: str, curves: Sequence[Curve], x: Axis, y: Axis
) -> Chart | None:
    """Draw curves; None if there is neither a point nor a wall in them."""
    drawn = [_drawable(curve, y) for curve in curves]
    drawn = [curve for curve in drawn if curve.points or curve.walls]
    if not drawn:
        return None
    with canvas(_WIDTH, _HEIGHT) as figure:
        titled(figure, title, subtitle)
        axes = figure.add_axes((0.115, 0.145, 0.62, 0.645))
        draw_curves(axes, drawn, x, y)
        _draw_labels(axes, drawn, x, y)
        return as_chart(figure, name=name, title=title, says=says)


def draw_curves(
    axes: "Axes", curves: Sequence[Curve], x: Axis, y: Axis, *, strip: float = _STRIP, wall_size: float = _WALL_SIZE
) -> None:
    """Draw curves and walls into axes, without words at their ends; there must be something in each curve.

    strip: the height of a wall's mark, as a share of the axes; wall_size: of the words beside it, in points.
    """
    drawn = [_drawable(curve, y) for curve in curves]
    _set_x(axes, drawn, x)
    _set_y(axes, drawn, y, strip)
    for curve in drawn:
        _draw(axes, curve)
    _draw_walls(axes, drawn, strip, wall_size)


def _drawable(curve: Curve, y: Axis) -> Curve:
    """Return a curve without what a logarithmic axis has no place for."""
    if not y.is_log:
        return curve
    points = [
        Point(point.x, point.y, point.low if point.low > 0 else point.y, point.high, point.is_hollow)
        for point in curve.points
        if point.y > 0
    ]
    return Curve(
        label=curve.label,
        ink=curve.ink,
        points=points,
        walls=curve.walls,
        is_dotted=curve.is_dotted,
        has_marks=curve.has_marks,
    )


def _set_x(axes: "Axes", curves: Sequence[Curve], x: Axis) -> None:
    values = [point.x for curve in curves for point in curve.points]
    values += [wall.x for curve in curves for wall in curve.walls]
    low, high = min(values), max(values)
    ticks = list(x.ticks) or [(value, short_count(value)) for value in sorted(set(values))]
    if x.is_log:
        axes.set_xscale("log")
        margin = max((high / low) ** 0.06, 1.15)
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = (high - low) * 0.03 or 1.0
        axes.set_xlim(low - margin, high + margin)
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.minorticks_off()
    axes.set_xlabel(x.label)


def _set_y(axes: "Axes", curves: Sequence[Curve], y: Axis, strip: float) -> None:
    walls = sum(1 for curve in curves if curve.walls)
    values = [value for curve in curves for point in curve.points for value in (point.low, point.high)] or [1.0]
    low, high = min(values), max(values)
    share = walls * strip + (0.05 if walls else 0.0)
    if y.is_log:
        axes.set_yscale("log")
        low, high = _widened(low, high)
        below = math.log(high / low) * share / (1 - share)
        axes.set_ylim(low * math.exp(-below), high)
        ticks = ladder_ticks(low, high)
    else:
        high = high * 1.08 or 1.0
        axes.set_ylim(-high * share / (1 - share), high)
        step = _round_step(high / 4)
        ticks = [step * number for number in range(int(high / step) + 1)]
    axes.set_yticks(ticks, [_ZEROS.sub("", y.form(tick)) for tick in ticks])
    axes.minorticks_off()
    axes.text(-0.01, 1.03, y.label, transform=axes.transAxes, ha="right" if len(y.label) < 8 else "center", va="bottom")


def _widened(low: float, high: float) -> tuple[float, float]:
    """Return the limits of a logarithmic axis: never less than from 1 to 4, in which noise would look like change."""
    low, high = low / 1.25, high * 1.25
    if high / low < 4:
        middle = math.sqrt(low * high)
        low, high = middle / 2, middle * 2
    return low, high


def _round_step(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min((step * power for step in (1, 2, 5, 10)), key=lambda step: abs(step - value))


def _draw(axes: "Axes", curve: Curve) -> None:
    if not curve.points:
        return
    xs, ys = [point.x for point in curve.points], [point.y for point in curve.points]
    style = ":" if curve.is_dotted else "-"
    axes.plot(xs, ys, style, color=curve.ink.colour, linewidth=1.6 if curve.is_dotted else 2.2)
    if not curve.has_marks:
        return
    for point in curve.points:
        if point.high > point.low:
            axes.vlines(point.x, point.low, point.high, color=curve.ink.colour, linewidth=1.2, alpha=0.7)
        face = "white" if point.is_hollow else curve.ink.colour
        axes.plot(
            [point.x],
            [point.y],
            curve.ink.marker,
            color=curve.ink.colour,
            markerfacecolor=face,
            markeredgewidth=1.6,
            clip_on=False,
        )


def _draw_walls(axes: "Axes", curves: Sequence[Curve], strip: float, wall_size: float) -> None:
    """Mark walls below all curves, with a line that leads there from the last point."""
    across = axes.get_xaxis_transform()
    row = 0
    left, right = axes.get_xlim()
    for curve in curves:
        if not curve.walls:
            continue
        height = strip * (row + 0.6)
        row += 1
        for wall in curve.walls:
            before = [point for point in curve.points if point.x <= wall.x]
            if before:
                last = before[-1]
                start = axes.transAxes.inverted().transform(axes.transData.transform((last.x, last.y)))[1]
                axes.plot(
                    [last.x, wall.x],
                    [float(start), height],
                    ":",
                    color=curve.ink.colour,
                    linewidth=1.2,
                    transform=across,
                    alpha=0.7,
                )
            axes.plot(
                [wall.x],
                [height],
                "x",
                color=curve.ink.colour,
                markersize=10,
                markeredgewidth=2.6,
                transform=across,
                clip_on=False,
            )
        kinds = ", ".join(dict.fromkeys(wall.kind for wall in curve.walls))
        text = f"{curve.label}: {kinds}" if curve.label else kinds
        at = axes.transAxes.inverted().transform(axes.transData.transform((curve.walls[0].x, 1)))[0]
        is_right = float(at) > 0.5
        axes.annotate(
            text,
            (curve.walls[0].x, height),
            xycoords=across,
            xytext=(-10 if is_right else 10, 0),
            textcoords="offset points",
            ha="right" if is_right else "left",
            va="center",
            fontsize=wall_size,
            color=curve.ink.colour,
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
    if row:
        axes.axhline(axes.get_ylim()[0], color=GREY, linewidth=0.8)
        axes.set_xlim(left, right)


def _draw_labels(axes: "Axes", curves: Sequence[Curve], x: Axis, y: Axis) -> None:
    labels = []
    for curve in curves:
        if curve.label and curve.points:
            last = curve.points[-1]
            figure = f"{y.form(last.y)}{y.ending}"
            if any(wall.x > last.x for wall in curve.walls):
                figure = f"{figure} at {x.form(last.x)}"
            labels.append((last.y, f"{curve.label}\n{figure}", curve.ink.colour))
    place_labels(axes, labels, apart_px=56)
