"""What charts of a report are drawn with: one style, whatever the machine's own is, and pictures alike to the byte."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from hedwig.benchmarks.report.page import Chart
from hedwig.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GREY", "Ink", "Palette", "as_chart", "canvas", "ladder_ticks", "place_labels", "titled"]

_DPI: Final = 150
_COLOURS_MAX: Final = 128
GREY: Final = "#5b6068"
_STEPS: Final = ((8.0, (1, 1.5, 2, 3, 4, 5, 7)), (200.0, (1, 2, 5)), (math.inf, (1,)))
_SMALLEST_POWER, _LARGEST_POWER = -6, 16
_STYLE: Final[dict[Any, Any]] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 11.5,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#1a1a1a",
    "axes.labelsize": 11.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.unicode_minus": False,
    "grid.color": "#e3e5e8",
    "grid.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "lines.linewidth": 2.2,
    "lines.markersize": 7.5,
    "text.parse_math": False,
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True)
class Ink:
    """How one side is drawn: no two sides differ by their colour alone."""

    colour: str
    marker: str


# The colours of Okabe and Ito, which all kinds of colour vision tell apart.
_KNOWN: Final = {
    "hbase": Ink("#0072B2", "o"),
    "zookeeper": Ink("#D55E00", "s"),
    "sqlite": Ink("#009E73", "^"),
    "hbase+thrift": Ink("#56B4E9", "D"),
}
_MORE: Final = (
    Ink("#0072B2", "o"),
    Ink("#D55E00", "s"),
    Ink("#009E73", "^"),
    Ink("#CC79A7", "D"),
    Ink("#E69F00", "v"),
    Ink("#56B4E9", "P"),
    Ink("#1a1a1a", "X"),
    Ink("#8a6d00", "<"),
)


@dataclass(slots=True)
class Palette:
    """Which side is drawn how: the same one always alike, within a report."""

    _given: dict[str, Ink] = field(default_factory=dict)

    def ink(self, side: str) -> Ink:
        if side in _KNOWN:
            return _KNOWN[side]
        return self._given.setdefault(side, _MORE[len(self._given) % len(_MORE)])


@contextmanager
def canvas(width: float, height: float) -> Iterator["Figure"]:
    """Give an empty picture of so many inches. Raises MissingExtraError - matplotlib is not installed."""
    with needed("benchmarks", "reports need the library"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    with mpl.rc_context():
        # What somebody likes his own pictures to look like would make ours differ from machine to machine.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        yield figure


def as_chart(figure: "Figure", *, name: str, title: str, says: str) -> Chart:
    """Return what is drawn as a chart."""
    from PIL import Image

    drawn, written = BytesIO(), BytesIO()
    # Whoever draws the same with another release of matplotlib shall get another picture only if it looks otherwise.
    figure.savefig(drawn, format="png", metadata={"Software": None})
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(_COLOURS_MAX, dither=Image.Dither.NONE)
        few.save(written, format="png", optimize=True, dpi=(_DPI, _DPI))
        return Chart(name=name, title=title, says=says, png=written.getvalue(), width=few.width, height=few.height)


def titled(figure: "Figure", title: str, subtitle: str) -> None:
    """Put a title, and below it what holds for the whole picture, at the top left."""
    height = figure.get_size_inches()[1]
    figure.text(0.02, 1 - 0.10 / height, title, fontsize=13.5, fontweight="bold", va="top", ha="left")
    figure.text(0.02, 1 - 0.40 / height, subtitle, fontsize=9.5, color=GREY, va="top", ha="left")


def ladder_ticks(low: float, high: float) -> list[float]:
    """Return where a logarithmic axis has its ticks: at round numbers, the fewer the wider it is."""
    steps = next(steps for width, steps in _STEPS if high / low < width)
    powers = [10.0**power for power in range(_SMALLEST_POWER, _LARGEST_POWER)]
    return [step * power for power in powers for step in steps if low <= step * power <= high]


def place_labels(axes: "Axes", labels: Sequence[tuple[float, str, str]], *, apart_px: float) -> None:
    """Write words in colours beside the right end of some axes, at heights in data, so that none covers another."""
    figure = axes.figure
    box = axes.get_window_extent()
    wanted = sorted((float(axes.transData.transform((1, y))[1]), text, colour) for y, text, colour in labels)
    heights: list[float] = []
    for at, _, _ in wanted:
        heights.append(max(at, heights[-1] + apart_px) if heights else at)
    # What was pushed out at the top pushes the others down again.
    limit = box.y1 + apart_px / 2
    for index in range(len(heights) - 1, -1, -1):
        heights[index] = min(heights[index], limit)
        limit = heights[index] - apart_px
    for at, (_, text, colour) in zip(heights, wanted, strict=True):
        x, y = figure.transFigure.inverted().transform((box.x1 + 12, at))
        figure.text(float(x), float(y), text, color=colour, fontsize=11, va="center", ha="left", fontweight="bold")
