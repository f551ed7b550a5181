"""A chart of factors: by how much one side was better than another, for each workload and number of topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.report.charts.drawing import GREY, Palette, as_chart, canvas, titled
from hedwig.benchmarks.report.findings.findings import Finding
from hedwig.benchmarks.report.page import Chart
from hedwig.benchmarks.runs.words import driver_title, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["factor_chart"]

_ROW: Final = 0.36
_LEFT_MIN, _LEFT_MAX = 0.335, 0.5
_LETTER: Final = 0.0084
"""Of a chart's width: a letter of a case's name."""
_STEPS: Final = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 300, 1000)


def factor_chart(found: Sequence[Finding], palette: Palette, *, name: str, subtitle: str) -> Chart | None:
    """Draw by what factor one side was better, a line for each workload and load, a dot for each number of topics."""
    drawn = [each for each in found if each.factor]
    if not drawn:
        return None
    first, second = drawn[0].sides
    rows = list(dict.fromkeys(each.case for each in drawn))
    ladder = sorted({each.workload.topics for each in drawn})
    height = 1.55 + _ROW * len(rows)
    title = f"{driver_title(second)} against {driver_title(first)}"
    # Names of cases stand left of the axes, whose right end stays.
    left = min(_LEFT_MAX, max(_LEFT_MIN, 0.02 + _LETTER * max(map(len, rows))))
    with canvas(8.6, height) as figure:
        titled(figure, title, subtitle)
        axes = figure.add_axes((left, 0.62 / height, 0.97 - left, 1 - 1.45 / height))
        axes.set_xscale("log")
        widest = max(max(each.factor or 1, 1 / (each.factor or 1)) for each in drawn) * 1.35
        widest = max(widest, 2.5)
        axes.set_xlim(1 / widest, widest)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.axvspan(1 / widest, 1, color=palette.ink(first).colour, alpha=0.06, linewidth=0)
        axes.axvspan(1, widest, color=palette.ink(second).colour, alpha=0.06, linewidth=0)
        axes.axvline(1, color=GREY, linewidth=1.2)
        for each in drawn:
            _draw_factor(axes, each, palette, rows.index(each.case), ladder)
        ticks = _ticks(widest)
        axes.set_xticks(ticks, [f"{max(tick, 1 / tick):.3g}×" if tick != 1 else "equal" for tick in ticks])
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", labelcolor="#1a1a1a", length=0, labelsize=10)
        axes.minorticks_off()
        for side, x, align in ((first, 0.0, "left"), (second, 1.0, "right")):
            axes.text(
                x,
                1 + 0.06 / max(height - 1.45, 0.3),
                f"{'← ' if align == 'left' else ''}{driver_title(side)} better{' →' if align == 'right' else ''}",
                transform=axes.transAxes,
                color=palette.ink(side).colour,
                fontweight="bold",
                fontsize=10.5,
                ha=align,
                va="bottom",
            )
        sizes = ", ".join(short_count(topics) for topics in ladder)
        largest = f"; small to large dots: {sizes} topics" if len(ladder) > 1 else f"; {sizes} topics"
        figure.text(0.02, 0.1 / height, f"hollow: no verdict, see the table{largest}", fontsize=9, color=GREY)
        return as_chart(
            figure,
            name=name,
            title=title,
            says=f"By what factor {driver_title(second)} (right) or {driver_title(first)} (left) was better: rates of "
            "closed loops, high percentiles at offered rates. Hollow dots are no verdicts: noise, a single or a short "
            "round, rounds and all times together that disagree, too few operations, failures, or a client that was or "
            "may have been at its limit. Lines: factors within single rounds; that of a percentile is of all times "
            f"together, and may lie off its line{largest}.",
        )


def _draw_factor(axes: "Axes", finding: Finding, palette: Palette, row: int, ladder: Sequence[int]) -> None:
    factor = finding.factor or 1.0
    place = ladder.index(finding.workload.topics)
    spread = 0.5 / max(1, len(ladder) - 1)
    y = row + (place - (len(ladder) - 1) / 2) * spread
    ink = palette.ink(finding.sides[1] if factor > 1 else finding.sides[0])
    if len(finding.ratios) > 1:
        axes.hlines(y, min(finding.ratios), max(finding.ratios), color=ink.colour, linewidth=1.1, alpha=0.6)
    axes.plot(
        [factor],
        [y],
        ink.marker,
        color=ink.colour,
        markersize=4.5 + 3.0 * (place + 1) / len(ladder),
        markerfacecolor=ink.colour if finding.better is not None else "white",
        markeredgewidth=1.3,
    )


def _ticks(widest: float) -> list[float]:
    """Return the factors that are written below the axis: fewer, the wider it is."""
    left_out = {1.5} if widest >= 4 else set()
    left_out |= {2, 3, 20, 300} if widest >= 30 else set()
    steps = [step for step in _STEPS if step < widest and step not in left_out]
    return [1 / step for step in reversed(steps[1:])] + list(steps)
