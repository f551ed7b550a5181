"""The layout record: which backend and which format wrote a store, checked before anything else is read."""

from dataclasses import dataclass
from typing import Final

from hedwig.errors import LayoutMismatchError, NoMetadataError

__all__ = ["FORMAT_MAJOR", "FORMAT_MINOR", "LOGS_PREFIX", "SHARED_LOGS_MAJOR", "Layout", "check_layout"]

FORMAT_MAJOR: Final = 1
"""The format of a new store. Increased when older code could not read, or would damage, what newer code writes."""

SHARED_LOGS_MAJOR: Final = 2
"""The format of a store in which hubs may write shared logs. Code that knows no shared logs must not use it."""

FORMAT_MINOR: Final = 0
"""Increased when new fields are added that older code keeps without understanding them."""

LOGS_PREFIX: Final = "log-"
"""How the names of the records of shared logs begin. A store with such a record has SHARED_LOGS_MAJOR, or soon will."""

_READABLE: Final = (FORMAT_MAJOR, SHARED_LOGS_MAJOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a store: the kind of backend, its format, and the store's own id (empty if it cannot keep one)."""

    kind: str
    major: int = FORMAT_MAJOR
    minor: int = FORMAT_MINOR
    store_id: str = ""


def check_layout(layout: Layout | None, *, kind: str, url: str) -> Layout:
    """Return `layout` if this code may use the store at `url` as a store of `kind`.

    Raises: NoMetadataError - there is none; LayoutMismatchError - another kind, or a newer or older major format.
    """
    if layout is None:
        raise NoMetadataError(
            f"there is no metadata at {url}; make it with: hedwig-admin metadata format --metadata '{url}'"
        )
    if layout.kind != kind:
        raise LayoutMismatchError(
            f"the metadata at {url} was laid out by the backend {layout.kind!r}, but the URL opens it with {kind!r}. "
            f"Use the URL scheme of {layout.kind!r}, or an empty store"
        )
    if layout.major not in _READABLE:
        is_newer = layout.major > max(_READABLE)
        newer = "newer: upgrade this software" if is_newer else "older: only earlier software reads it"
        raise LayoutMismatchError(
            f"the metadata at {url} has format {layout.major}.{layout.minor} of {layout.kind!r}, this software reads "
            f"the formats {' and '.join(map(str, _READABLE))}; the store is {newer}"
        )
    return layout
