"""A sorted page of names out of many unsorted ones."""

import base64
from typing import Final, Generic, TypeVar

__all__ = ["NamePage", "page_token", "start_of"]

T = TypeVar("T")

_SLACK: Final = 4096
"""How many names beyond a page are kept before they are sorted, so that sorts are rare and memory is bounded."""


class NamePage(Generic[T]):
    """Keeps the first `limit` of the offered names after `start_after`, each with a value."""

    def __init__(self, limit: int, start_after: bytes = b"") -> None:
        self._limit = limit
        self._start_after = start_after
        self._kept: dict[bytes, T] = {}
        self._ceiling: bytes | None = None
        """No name from this one on can be on the page."""
        self.is_cut = False
        """Whether there are names after the page."""

    def takes(self, name: bytes) -> bool:
        """Say whether a name may be on the page."""
        if name <= self._start_after:
            return False
        if self._ceiling is not None and name >= self._ceiling:
            self.is_cut = True
            return False
        return True

    def offer(self, name: bytes, value: T) -> None:
        """Keep a name if it may be on the page."""
        if self.takes(name):
            self._kept[name] = value
            if len(self._kept) > self._limit + _SLACK:
                self._cut()

    def rows(self) -> list[tuple[bytes, T]]:
        """Return the page, in the order of the names as bytes."""
        self._cut()
        return list(self._kept.items())

    def _cut(self) -> None:
        names = sorted(self._kept)
        if len(names) > self._limit:
            self.is_cut = True
            self._ceiling = names[self._limit]
        self._kept = {name: self._kept[name] for name in names[: self._limit]}


def page_token(last: bytes) -> str:
    """Return the token of the page that begins after the name `last`."""
    return base64.urlsafe_b64encode(last).rstrip(b"=").decode()


def start_of(token: str) -> bytes:
    """Return the name of a token. Raises: ValueError - the text is no token."""
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError as exc:
        raise ValueError(f"{token!r} is not the next token of an earlier page") from exc
