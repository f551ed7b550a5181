"""Which part of a listing the user wants: the options that all listings take."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from hedwig.cli.arguments.names import PREFIX, CheckedName
from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.arguments.page_token import make_page_token, read_page_token

__all__ = ["NAME", "Selection", "cut", "list_options"]

T = TypeVar("T")

_LIMIT: Final = 1000

NAME: Final = CheckedName("name", str.encode)
"""The name of a thing that is neither a topic nor a subscriber."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A part of a listing: names with a prefix, after a name, and at most a number of them."""

    prefix: bytes | None
    start_after: bytes | None
    limit: int | None
    page_token: str | None
    everything: bool

    def __post_init__(self) -> None:
        if self.start_after is not None and self.page_token is not None:
            raise click.UsageError("give --start-after or --page-token, not both")
        if self.everything and self.limit is not None:
            raise click.UsageError("give --limit or --all, not both")

    @property
    def is_untouched(self) -> bool:
        """Say whether the user chose nothing."""
        given = (self.prefix, self.start_after, self.limit, self.page_token)
        return not self.everything and all(each is None for each in given)

    @property
    def names_max(self) -> int | None:
        """Return the maximum number of names, None for all."""
        return None if self.everything else self.limit or _LIMIT

    def start(self, listing: str) -> bytes | None:
        """Return the name after which to begin. Raises OperationError for the page token of another listing."""
        return self.start_after if self.page_token is None else read_page_token(self._name(listing), self.page_token)

    def token(self, listing: str, last: bytes) -> str:
        """Return the page token that continues after `last`."""
        return make_page_token(self._name(listing), last)

    def _name(self, listing: str) -> str:
        return f"{listing} {(self.prefix or b'').hex()}"


def cut(
    selection: Selection, listing: str, rows: Iterable[T], name_of: Callable[[T], bytes]
) -> tuple[Sequence[T], str | None]:
    """Return the selected rows of a listing, by the bytes of their names, and the token that continues it.

    For short listings that are completely in memory.
    """
    start, prefix = selection.start(listing) or b"", selection.prefix or b""
    selected = sorted((row for row in rows if name_of(row) > start and name_of(row).startswith(prefix)), key=name_of)
    most = selection.names_max
    if most is None or len(selected) <= most:
        return selected, None
    return selected[:most], selection.token(listing, name_of(selected[most - 1]))


def list_options(
    name: "click.ParamType[Any]", *, with_prefix: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a listing of `name`s. The command gets them as `selection`."""
    prefix = click.option("--prefix", type=PREFIX, metavar="PREFIX", help="Only names that begin like this.")
    options = (
        *((prefix,) if with_prefix else ()),
        click.option("--start-after", type=name, metavar="NAME", help="Only names after this one."),
        click.option("--limit", type=click.IntRange(min=1), help=f"How many at most.  [default: {_LIMIT}]"),
        click.option("--page-token", metavar="TOKEN", help="Go on where an earlier listing was cut."),
        click.option("--all", "everything", is_flag=True, help="List all, however many."),
    )
    names = (*(("prefix",) if with_prefix else ()), "start_after", "limit", "page_token", "everything")
    return option_group("selection", options, names, lambda params: Selection(**{"prefix": None, **params}))
