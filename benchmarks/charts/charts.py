"""All kinds of charts: curves, small curves in a grid, bars, factors, and panels second by second."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from hedwig.benchmarks.charts.drawing import GREY, Palette, ladder_ticks, picture
from hedwig.benchmarks.charts.sections import Chart
from hedwig.benchmarks.runs.words import count, driver_title, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Axis",
    "Bar",
    "Curve",
    "Factor",
    "Line",
    "Panel",
    "Point",
    "Wall",
    "bars_chart",
    "curves_chart",
    "factors_chart",
    "grid_chart",
    "panels_chart",
]

_ZEROS: Final = re.compile(r"\.0+(?!\d)")
_STRIP: Final = 0.08
"""The height that one curve's wall marks take, as a share of the axes. The marks stand below all curves, in rows."""
_COLUMNS: Final = 3
_PANEL_IN: Final = 2.55
_ROW_IN: Final = 0.34
_DARK: Final = "#1a1a1a"


@dataclass(frozen=True, slots=True)
class Point:
    """A figure, with the lowest and highest of its rounds. `is_hollow`: read it with care, as the chart explains."""

    x: float
    y: float
    low: float
    high: float
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Wall:
    """Where a side could not be measured, and in a word or two what prevented it."""

    x: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The measurements of one side."""

    side: str
    points: Sequence[Point]
    walls: Sequence[Wall] = ()
    is_dotted: bool = False
    has_marks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """How one axis is drawn. `ticks`: positions with their texts; without any, they are chosen from the numbers."""

    label: str
    is_log: bool = True
    ticks: Sequence[tuple[float, str]] = ()
    form: Callable[[float], str] = count


def curves_chart(
    name: str, title: str, subtitle: str, curves: Sequence[Curve], palette: Palette, x: Axis, y: Axis
) -> Chart | None:
    """Draw curves; return None if they have neither a point nor a wall."""
    drawn = [curve for curve in curves if curve.points or curve.walls]
    if not drawn:
        return None
    with picture(name, title, f"{subtitle}\n{x.label} →; ↑ {y.label}", 6.6, 4.3) as shown:
        axes = shown.axes(0.115, 0.45, 0.86, 2.75)
        _draw_curves(axes, drawn, palette, x, y, size=1.0)
        for side in reversed(list(dict.fromkeys(curve.side for curve in drawn))):
            shown.name_side(driver_title(side), palette.ink(side).colour)
        return shown.chart()


def grid_chart(
    name: str, title: str, subtitle: str, cells: Sequence[tuple[str, Sequence[Curve]]], palette: Palette
) -> Chart | None:
    """Draw small charts of curves beside each other, each under its name, with logarithmic axes.

    Returns None if there are no cells.
    """
    if not cells:
        return None
    columns = 2 if len(cells) in (2, 4) else _COLUMNS
    rows, step = math.ceil(len(cells) / columns), 0.966 / columns
    with picture(name, title, subtitle, 9.9, 0.9 + _PANEL_IN * rows) as shown:
        for index, (text, curves) in enumerate(cells):
            row, column = divmod(index, columns)
            bottom = (rows - 1 - row) * _PANEL_IN + 0.4
            axes = shown.axes(0.065 + column * step, bottom, step - 0.067, _PANEL_IN - 0.75)
            plain = Axis(label="", form=short_count)
            _draw_curves(axes, curves, palette, plain, plain, size=0.75)
            axes.set_title(text, fontsize=9, fontweight="bold", loc="left")
        sides = dict.fromkeys(curve.side for _, curves in cells for curve in curves)
        for side in reversed(list(sides)):
            shown.name_side(driver_title(side), palette.ink(side).colour)
        return shown.chart()


def _draw_curves(axes: "Axes", curves: Sequence[Curve], palette: Palette, x: Axis, y: Axis, *, size: float) -> None:
    """Draw curves, with their walls below them; `size` scales marks and words, 1 is full size."""
    values: list[float] = []
    for curve in curves:
        points = [point for point in curve.points if point.y > 0 or not y.is_log]
        values += [value for point in points for value in (point.y, point.high)]
        values += [point.low for point in points if point.low > 0 or not y.is_log]
        _draw_curve(axes, curve, points, palette, size)
    ends = [point.x for curve in curves for point in curve.points]
    positions = sorted({*ends, *(wall.x for curve in curves for wall in curve.walls)})
    _scale_x(axes, positions, x)
    walled = [curve for curve in curves if curve.walls]
    _scale_y(axes, values or [1.0], y, below=_STRIP * len(walled) + (0.05 if walled else 0.0))
    axes.tick_params(labelsize=10.5 * size)
    for row, curve in enumerate(walled):
        ink, height = palette.ink(curve.side), _STRIP * (row + 0.6)
        across = axes.get_xaxis_transform()
        marks: dict[str, Any] = {
            "color": ink.colour,
            "markersize": 10 * size,
            "markeredgewidth": 2.6 * size,
            "clip_on": False,
        }
        axes.plot([wall.x for wall in curve.walls], [height] * len(curve.walls), "x", transform=across, **marks)
        first, is_right = curve.walls[0].x, curve.walls[0].x > positions[len(positions) // 2]
        axes.annotate(
            ", ".join(dict.fromkeys(wall.kind for wall in curve.walls)),
            (first, height),
            xycoords=across,
            xytext=(-10 if is_right else 10, 0),
            textcoords="offset points",
            ha="right" if is_right else "left",
            va="center",
            fontsize=9.5 * size,
            fontweight="bold",
            color=ink.colour,
        )


def _draw_curve(axes: "Axes", curve: Curve, points: Sequence[Point], palette: Palette, size: float) -> None:
    if not points:
        return
    ink = palette.ink(curve.side)
    xs, ys = [point.x for point in points], [point.y for point in points]
    axes.plot(xs, ys, ":" if curve.is_dotted else "-", color=ink.colour, linewidth=2.2 * size)
    if not curve.has_marks:
        return
    lows = [point.low if point.low > 0 else point.y for point in points]
    axes.vlines(xs, lows, [point.high for point in points], color=ink.colour, linewidth=1.2, alpha=0.7)
    for point in points:
        face = "white" if point.is_hollow else ink.colour
        marks: dict[str, Any] = {"markerfacecolor": face, "markeredgewidth": 1.6 * size, "markersize": 7.5 * size}
        axes.plot([point.x], [point.y], ink.marker, color=ink.colour, clip_on=False, **marks)


def _scale_x(axes: "Axes", positions: Sequence[float], x: Axis) -> None:
    low, high = positions[0], positions[-1]
    if x.is_log:
        margin = max((high / low) ** 0.06, 1.15)
        axes.set_xscale("log")
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = (high - low) * 0.03 or 1.0
        axes.set_xlim(low - margin, high + margin)
    ticks = x.ticks or [(position, short_count(position)) for position in positions]
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.minorticks_off()


def _scale_y(axes: "Axes", values: Sequence[float], y: Axis, *, below: float) -> None:
    """Set the limits, and put ticks at round numbers; `below` is the share of the height kept for walls."""
    low, high = min(values), max(values)
    if y.is_log:
        # The axis spans at least a factor of 4. In a smaller span noise would look like change.
        widen = max(1.25, 2 * math.sqrt(low / high))
        low, high = low / widen, high * widen
        axes.set_yscale("log")
        axes.set_ylim(low * (high / low) ** (-below / (1 - below)), high)
        ticks = ladder_ticks(low, high)
    else:
        high = 1.08 * high or 1.0
        axes.set_ylim(-high * below / (1 - below), high)
        ticks = [tick for tick in axes.get_yticks() if 0 <= tick <= high]
    axes.set_yticks(ticks, [_ZEROS.sub("", y.form(tick)) for tick in ticks])
    axes.minorticks_off()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A case of a side. `value` is None if the side met a wall; `note` names the wall."""

    group: str
    label: str
    side: str
    value: float | None
    low: float = 0.0
    high: float = 0.0
    note: str = ""


def bars_chart(
    name: str, title: str, subtitle: str, bars: Sequence[Bar], palette: Palette, form: Callable[[float], str]
) -> Chart | None:
    """Draw bars from 0 on, those of one group together under its name; return None if there are no bars."""
    if not bars:
        return None
    rows: list[str | Bar] = []
    for group in dict.fromkeys(bar.group for bar in bars):
        rows += [group, *(bar for bar in bars if bar.group == group)]
    widest = (
        max((value for bar in bars if bar.value is not None for value in (bar.value, bar.high)), default=1.0) or 1.0
    )
    height = 1.2 + _ROW_IN * len(rows)
    with picture(name, title, subtitle, 8.6, height) as shown:
        axes = shown.axes(0.27, 0.2, 0.6, height - 1.0)
        axes.set_axis_off()
        axes.set_xlim(0, widest)
        axes.set_ylim(len(rows), 0)
        across = axes.get_yaxis_transform()
        for row, each in enumerate(rows):
            y = row + 0.5
            if isinstance(each, str):
                axes.text(-0.4, y, each, transform=across, fontsize=10, fontweight="bold", va="center")
                continue
            colour = palette.ink(each.side).colour
            axes.text(-0.015, y, each.label, transform=across, fontsize=10, ha="right", va="center")
            if each.value is None:
                axes.plot([widest * 0.012], [y], "x", color=colour, markersize=9, markeredgewidth=2.4)
                axes.text(widest * 0.035, y, each.note, fontsize=9.5, va="center", color=colour, fontweight="bold")
                continue
            axes.barh(y, each.value, height=0.66, color=colour)
            axes.hlines(y, each.low, each.high, color=_DARK, linewidth=1.4)
            axes.text(max(each.value, each.high) + widest * 0.012, y, form(each.value), fontsize=10, va="center")
        return shown.chart()


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The factor by which the second side was better in a case with `topics` topics; below 1, it was worse.

    low, high: the lowest and highest factor of single rounds. is_sure: the factor is beyond the noise.
    """

    case: str
    topics: int
    factor: float
    low: float
    high: float
    is_sure: bool


def factors_chart(
    name: str, subtitle: str, sides: tuple[str, str], factors: Sequence[Factor], palette: Palette
) -> Chart | None:
    """Draw by what factor the second side was better: a line for each case, a dot for each number of topics.

    Returns None if there are no factors.
    """
    if not factors:
        return None
    first, second = sides
    rows = list(dict.fromkeys(each.case for each in factors))
    ladder = sorted({each.topics for each in factors})
    widest = max(2.5, 1.35 * max(max(each.factor, 1 / each.factor) for each in factors))
    sizes = ", ".join(short_count(topics) for topics in ladder)
    height = 1.75 + 0.36 * len(rows)
    title = f"{driver_title(second)} against {driver_title(first)}"
    said = f"{subtitle}\nhollow: within the noise, or undecided; small to large dots: {sizes} topics"
    with picture(f"factors-{name}", title, said, 8.6, height) as shown:
        axes = shown.axes(0.45, 0.3, 0.52, height - 1.4)
        axes.set_xscale("log")
        axes.set_xlim(1 / widest, widest)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.axvline(1, color=GREY, linewidth=1.2)
        ends: tuple[tuple[str, float, float, Literal["left", "right"]], ...]
        ends = ((first, 1 / widest, 1, "left"), (second, 1, widest, "right"))
        for side, low, high, align in ends:
            colour = palette.ink(side).colour
            axes.axvspan(low, high, color=colour, alpha=0.06, linewidth=0)
            text = f"{driver_title(side)} better"
            axes.set_title(text, loc=align, color=colour, fontsize=10.5, fontweight="bold")
        for each in factors:
            index = ladder.index(each.topics)
            y = rows.index(each.case) + (index - (len(ladder) - 1) / 2) * 0.5 / max(1, len(ladder) - 1)
            ink = palette.ink(second if each.factor > 1 else first)
            axes.hlines(y, each.low, each.high, color=ink.colour, linewidth=1.1, alpha=0.6)
            face = ink.colour if each.is_sure else "white"
            marks: dict[str, Any] = {"markersize": 4.5 + 3.0 * (index + 1) / len(ladder), "markerfacecolor": face}
            axes.plot([each.factor], [y], ink.marker, color=ink.colour, **marks)
        ticks = [tick for tick in ladder_ticks(1.01, widest) if not tick % 1] or [2.0]
        ticks = [*(1 / tick for tick in reversed(ticks)), 1.0, *ticks]
        axes.set_xticks(ticks, [f"{max(tick, 1 / tick):.3g}×" if tick != 1 else "equal" for tick in ticks])
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", labelcolor=_DARK, length=0, labelsize=9)
        axes.minorticks_off()
        return shown.chart()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a panel: positions and values.

    step: each value holds around its position (`mid`), or from there on (`post`); None: the points are joined.
    """

    colour: str
    points: Sequence[tuple[float, float]]
    is_dashed: bool = False
    step: Literal["mid", "post"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of several axes below each other. `nothing`: where a logarithmic axis shows 0."""

    text: str
    lines: Sequence[Line]
    is_log: bool = False
    nothing: float = 0.0


def panels_chart(
    name: str,
    title: str,
    subtitle: str,
    panels: Sequence[Panel],
    *,
    marks: Sequence[tuple[float, str]] = (),
    ticks: Sequence[tuple[float, str]] = (),
    sides: Sequence[tuple[str, str]] = (),
) -> Chart | None:
    """Draw panels below each other over the same seconds; return None if there is nothing to draw.

    Args: marks - moments, with what happened then; ticks - positions, with what is written there below the last panel;
        sides - names and colours.
    """
    seconds = [x for panel in panels for line in panel.lines for x, _ in line.points]
    if not seconds:
        return None
    foot = 2.2 if ticks else 0.6
    with picture(name, title, subtitle, 9.9, foot + 1.45 * len(panels) + 0.75) as shown:
        for above, panel in enumerate(reversed(panels)):
            axes = shown.axes(0.07, foot + 1.45 * above, 0.915, 1.08)
            for line in panel.lines:
                shape: dict[str, Any] = {
                    "linestyle": "--" if line.is_dashed else "-",
                    "linewidth": 1.2,
                    "color": line.colour,
                }
                xs, ys = [x for x, _ in line.points], [y or panel.nothing for _, y in line.points]
                if line.step is None:
                    axes.plot(xs, ys, marker=".", markersize=3, **shape)  # A line of one point shows too.
                else:
                    axes.step(xs, ys, where=line.step, **shape)
            axes.set_xlim(min(seconds), max(seconds))
            _scale_panel(axes, panel)
            axes.set_title(panel.text, fontsize=9, fontweight="bold", loc="left")
            for at, text in marks:
                axes.axvline(at, color=GREY, linewidth=1)
                axes.annotate(text if above == len(panels) - 1 else "", (at, 0.9), xycoords=("data", "axes fraction"))
            axes.tick_params(labelsize=8, labelbottom=above == 0)
            if ticks:
                names = [text if above == 0 else "" for _, text in ticks]
                axes.set_xticks([at for at, _ in ticks], names, rotation=50, ha="right", fontsize=7)
        for side, colour in reversed(sides):
            shown.name_side(side, colour)
        return shown.chart()


def _scale_panel(axes: "Axes", panel: Panel) -> None:
    if not panel.is_log:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])  # A constant line would lie on the border.
        return
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    ticks = ladder_ticks(low, high)
    if panel.nothing:
        ticks = [panel.nothing, *(tick for tick in ticks if tick >= 1)]
    axes.set_yticks(ticks, ["0" if tick == panel.nothing else f"{tick:,.6g}" for tick in ticks])
    axes.minorticks_off()
