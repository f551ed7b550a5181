"""A report: sections with charts and tables, as an HTML page that needs nothing else, and as Markdown."""

import importlib.resources
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hedwig.extras import needed

if TYPE_CHECKING:
    import jinja2

__all__ = ["Chart", "Page", "Section", "Table", "html", "markdown_page"]

_BROAD: Final = 1000
_TEMPLATE: Final = "page.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture. `name`: of its file, without an ending. `says`: what it shows, for those who do not see it too."""

    name: str
    title: str
    says: str
    png: bytes
    width: int
    height: int

    @property
    def is_broad(self) -> bool:
        """Say whether it needs the page's whole width."""
        return self.width > _BROAD

    @property
    def data(self) -> str:
        """Return the picture as text."""
        return b64encode(self.png).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Lines of text under columns."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report. `facts`: what holds for all that follows, by name.

    is_folded: the page shows its title only, until somebody wants to see more.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    says: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    says: Sequence[str]
    sections: Sequence[Section]

    def charts(self) -> list[Chart]:
        """Return all pictures, in their order."""
        return [chart for section in self.sections for chart in section.charts]


def html(page: Page) -> str:
    """Return the page as HTML, pictures included. Raises MissingExtraError - jinja2 is not installed."""
    return _environment().from_string(_source()).render(page=page)


def markdown_page(page: Page, pictures: str) -> str:
    """Return the page as Markdown; `pictures` is what stands before the name of a picture."""
    written = [f"# {page.title}", "", *_paragraphs(page.says)]
    for section in page.sections:
        written += ["", f"## {section.title}", "", *_paragraphs(section.says)]
        written += [*(f"- **{name}**: {value}" for name, value in section.facts), *([""] if section.facts else [])]
        for chart in section.charts:
            written += [f"![{_plain(chart.says)}]({pictures}{chart.name}.png)", ""]
        for table in section.tables:
            written += [*([f"**{table.title}**", ""] if table.title else []), *_lines(table), ""]
    return "\n".join(written).rstrip("\n") + "\n"


def _paragraphs(says: Sequence[str]) -> list[str]:
    return [line for paragraph in says for line in (paragraph, "")]


def _lines(table: Table) -> list[str]:
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in table.lines]
    return ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns), *rows]


def _plain(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace("\n", " ")


def _source() -> str:
    return importlib.resources.files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")


def _environment() -> "jinja2.Environment":
    with needed("benchmarks", "reports need the library"):
        import jinja2
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
