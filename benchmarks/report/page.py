"""A report: sections with charts and tables, as an HTML page that needs nothing else."""

import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hedwig.benchmarks.charts.sections import Chart, Section
from hedwig.extras import needed

if TYPE_CHECKING:
    import jinja2

__all__ = ["Page", "html"]

_TEMPLATE: Final = "page.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report."""

    title: str
    sections: Sequence[Section]

    def charts(self) -> list[Chart]:
        """Return all pictures, in their order."""
        return [chart for section in self.sections for chart in section.charts]


def html(page: Page) -> str:
    """Return the page as HTML, pictures included. Raises MissingExtraError - jinja2 is not installed."""
    return _environment().from_string(_source()).render(page=page)


def _source() -> str:
    return importlib.resources.files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")


def _environment() -> "jinja2.Environment":
    with needed("benchmarks", "reports need the library"):
        import jinja2
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
