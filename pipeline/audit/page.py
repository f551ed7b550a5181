"""A page about the results of a job: sections with pictures and tables, in one HTML file that needs no other."""

import importlib
import importlib.resources
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["Chart", "Lines", "Page", "Section", "bars", "check_libraries", "html"]

_TEMPLATE: Final = "page.html"
_WIDTH: Final = 7.5
_BLUE, _ORANGE = "#0072B2", "#D55E00"
"""From the palette of Okabe and Ito: people with any kind of colour vision can tell its colours apart."""
_STYLE: Final[dict[Any, Any]] = {
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e5e8",
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture; `says`: what it shows, also for readers who cannot see it."""

    says: str
    png: bytes

    @property
    def data(self) -> str:
        """Return the picture as Base64 text."""
        return b64encode(self.png).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A table of text."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page."""

    title: str
    says: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Lines] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page; `facts`: names and values that apply to all of it."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def check_libraries() -> None:
    """Raise ModuleNotFoundError if a page cannot be made here. Call it before hours of work."""
    for name in ("jinja2", "matplotlib"):
        importlib.import_module(name)


def html(page: Page) -> str:
    """Return the page as HTML, pictures included."""
    import jinja2

    template = importlib.resources.files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(page=page)


def bars(
    values: Mapping[str, float], *, says: str, axis: str, is_log: bool = False, marked: Sequence[str] = ()
) -> Chart:
    """Draw a bar for each of `values`, one below the other; bars in `marked` have another colour."""
    names = list(values)

    def draw(axes: "Axes") -> None:
        colours = [_ORANGE if name in marked else _BLUE for name in names]
        axes.barh(range(len(names)), [values[name] for name in names], color=colours)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(axis)
        if is_log:
            axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, _room_for(values.values()))
        _in_whole_numbers(axes.xaxis, is_log=is_log)

    return _drawn(draw, 0.9 + 0.28 * max(len(names), 2), says)


def _room_for(values: Iterable[float]) -> float:
    """Return where an axis ends: a little beyond its largest value, and at least beyond 1."""
    return 1.05 * max([1.0, *values])


def _in_whole_numbers(axis: "Axis", *, is_log: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    if not is_log:
        axis.set_major_locator(MaxNLocator(integer=True))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _drawn(draw: Any, height: float, says: str) -> Chart:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        # A user's own matplotlib settings would make our pictures differ from machine to machine.
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH, height), dpi=130, facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        written = BytesIO()
        figure.savefig(written, format="png", metadata={"Software": None})
    return Chart(says=says, png=written.getvalue())
