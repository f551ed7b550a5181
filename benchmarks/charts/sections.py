"""The parts of a report: sections with facts, charts and tables."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["Chart", "Section", "TextTable"]

_BROAD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture. `name`: that of its file, without the ending. `subtitle`: what holds for everything in the picture."""

    name: str
    title: str
    subtitle: str
    png: bytes
    width: int
    height: int

    @property
    def is_broad(self) -> bool:
        """Say whether it needs the page's whole width."""
        return self.width > _BROAD

    @property
    def data(self) -> str:
        """Return the picture's PNG as base64 text."""
        return b64encode(self.png).decode("ascii")


class TextTable(NamedTuple):
    """Lines of text under columns. `title`: empty if there is only one table."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a report. `facts`: names with texts that hold for all that follows.

    is_folded: the page shows only the title until a reader opens the section.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[TextTable] = ()
    is_folded: bool = False
