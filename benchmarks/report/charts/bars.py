"""Charts of bars: one figure of many cases below each other, with the range of its rounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.report.charts.drawing import Ink, as_chart, canvas, titled
from hedwig.benchmarks.report.page import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bar", "bars_chart"]

_ROW: Final = 0.34
_HEAD: Final = 1.35
_HEAD_LINES: Final = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A case. `value`: None where it met a wall, which `note` then names."""

    group: str
    label: str
    ink: Ink
    value: float | None
    low: float = 0.0
    high: float = 0.0
    note: str = ""


def bars_chart(
    *, name: str, title: str, subtitle: str, says: str, bars: Sequence[Bar], form: Callable[[float], str]
) -> Chart | None:
    """Draw bars from 0 on, those of one group together; None if there are none."""
    if not bars:
        return None
    groups = list(dict.fromkeys(bar.group for bar in bars))
    has_heads = len(groups) < len(bars)
    lines = len(bars) + (_HEAD_LINES * len(groups) if has_heads else 0)
    height = _HEAD + _ROW * lines
    left = 0.235 if has_heads else 0.42
    values = [value for bar in bars if bar.value is not None for value in (bar.value, bar.high)]
    widest = max(values, default=1.0) or 1.0
    with canvas(8.6, height) as figure:
        titled(figure, title, subtitle)
        axes = figure.add_axes((left, 0.25 / height, 0.87 - left, 1 - 1.0 / height))
        axes.grid(visible=False)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.set_xlim(0, widest)
        axes.set_ylim(lines, -0.2)
        axes.set_xticks([])
        axes.set_yticks([])
        y = 0.0
        for group in groups:
            if has_heads:
                x = 0.02 - left
                across = axes.get_yaxis_transform()
                axes.text(
                    x / (0.87 - left), y + 0.45, group, transform=across, fontsize=10, fontweight="bold", va="center"
                )
                y += _HEAD_LINES
            for bar in (each for each in bars if each.group == group):
                _draw(axes, bar, bar.label if has_heads else group, y + 0.35, widest, form)
                y += 1.0
        return as_chart(figure, name=name, title=title, says=says)


def _draw(axes: "Axes", bar: Bar, label: str, y: float, widest: float, form: Callable[[float], str]) -> None:

    axes.text(
        -0.015,
        y,
        label,
        transform=axes.get_yaxis_transform(),
        fontsize=10.5,
        ha="right",
        va="center",
        color="#1a1a1a",
    )
    if bar.value is None:
        axes.plot([widest * 0.012], [y], "x", color=bar.ink.colour, markersize=9, markeredgewidth=2.4)
        axes.text(widest * 0.035, y, bar.note, fontsize=9.5, va="center", color=bar.ink.colour, fontweight="bold")
        return
    axes.barh(y, bar.value, height=0.66, color=bar.ink.colour)
    if bar.high > bar.low:
        axes.hlines(y, bar.low, bar.high, color="#1a1a1a", linewidth=1.4)
    end = max(bar.value, bar.high)
    note = f"  {bar.note}" if bar.note else ""
    axes.text(end + widest * 0.012, y, f"{form(bar.value)}{note}", fontsize=10, va="center", color="#1a1a1a")
