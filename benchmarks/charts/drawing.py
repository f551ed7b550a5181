"""The tools that draw charts. The style does not depend on the machine; the same input gives the same bytes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from hedwig.benchmarks.charts.sections import Chart
from hedwig.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["GREY", "Palette", "Picture", "ladder_ticks", "picture"]

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
    """How one side is drawn. Sides also differ by their markers, so that no two differ by colour alone."""

    colour: str
    marker: str


# The colours of Okabe and Ito, which all kinds of colour vision tell apart.
_KNOWN: Final = {
    "hbase": Ink("#0072B2", "o"),
    "zookeeper": Ink("#D55E00", "s"),
    "sqlite": Ink("#009E73", "^"),
    "hbase+index": Ink("#CC79A7", "P"),
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
    """How each side is drawn. A side keeps its ink within a report."""

    _given: dict[str, Ink] = field(default_factory=dict)

    def ink(self, side: str) -> Ink:
        if side in _KNOWN:
            return _KNOWN[side]
        return self._given.setdefault(side, _MORE[len(self._given) % len(_MORE)])


@dataclass(slots=True)
class Picture:
    """A picture that is being drawn; `chart` returns it once it is done."""

    figure: "Figure"
    name: str
    title: str
    subtitle: str
    _sides: float = 0.98

    @property
    def height(self) -> float:
        """Return its height in inches."""
        return float(self.figure.get_size_inches()[1])

    def axes(self, left: float, bottom_in: float, width: float, height_in: float) -> "Axes":
        """Return new axes, placed by shares of the width across, and by inches in height."""
        return self.figure.add_axes((left, bottom_in / self.height, width, height_in / self.height))

    def name_side(self, text: str, colour: str) -> None:
        """Write a side's name in its colour at the top, to the left of the names before."""
        style: dict[str, Any] = {"ha": "right", "va": "top", "fontweight": "bold", "fontsize": 10}
        written = self.figure.text(self._sides, 1 - 0.62 / self.height, text, color=colour, **style)
        self._sides -= written.get_window_extent().width / self.figure.bbox.width + 0.02

    def chart(self) -> Chart:
        """Return the drawn picture as a chart."""
        from PIL import Image

        drawn, written = BytesIO(), BytesIO()
        # Without this, matplotlib writes its release into the file, and another release changes the bytes.
        self.figure.savefig(drawn, format="png", metadata={"Software": None})
        with Image.open(drawn) as image:
            few = image.convert("RGB").quantize(_COLOURS_MAX, dither=Image.Dither.NONE)
            few.save(written, format="png", optimize=True, dpi=(_DPI, _DPI))
            png, width, height = written.getvalue(), few.width, few.height
        return Chart(name=self.name, title=self.title, subtitle=self.subtitle, png=png, width=width, height=height)


@contextmanager
def picture(name: str, title: str, subtitle: str, width: float, height: float) -> Iterator[Picture]:
    """Give an empty picture under a title, its size in inches.

    Raises: MissingExtraError - matplotlib is not installed.
    """
    with needed("benchmarks", "reports need the library"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    with mpl.rc_context():
        # A user's own settings of matplotlib would make pictures differ from machine to machine.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
        FigureCanvasAgg(figure)
        figure.text(0.02, 1 - 0.10 / height, title, fontsize=13.5, fontweight="bold", va="top", ha="left")
        figure.text(0.02, 1 - 0.40 / height, subtitle, fontsize=9.5, color=GREY, va="top", ha="left")
        yield Picture(figure, name, title, subtitle)


def ladder_ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: round numbers, fewer on a wider axis."""
    steps = next(steps for width, steps in _STEPS if high / low < width)
    powers = [10.0**power for power in range(_SMALLEST_POWER, _LARGEST_POWER)]
    return [step * power for power in powers for step in steps if low <= step * power <= high]
