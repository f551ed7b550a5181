"""What a report is made of: sections with facts, charts and tables."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["Chart", "Section", "Table"]

_BROAD: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture. `name`: of its file, without an ending. `subtitle`: what holds for all that is in it."""

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
        """Return the picture as text."""
        return b64encode(self.png).decode("ascii")


class Table(NamedTuple):
    """Lines of text under columns. `title`: empty where there is but one table."""

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
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    is_folded: bool = False
