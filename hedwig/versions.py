"""Versions: the opaque tokens on which every compare-and-set of the metadata rests."""

import base64
import binascii
from dataclasses import dataclass
from typing import Final, Generic, Self, TypeVar

__all__ = ["ANY", "NEW", "Version", "Versioned"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """One write of one record. Compared for equality only; its bytes have a meaning only for the backend that made it.

    A version never repeats for a key, not even across delete and re-create. So a client that missed both is still
    refused. The first byte names the kind of backend, so a version of another backend is refused like a stale one.
    """

    raw: bytes

    def __str__(self) -> str:
        """Return the text that `parse` reads back, fit for a command line."""
        return _NAMES.get(self) or base64.urlsafe_b64encode(self.raw).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text that `str` returned. Raises ValueError if it is not a version."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as exc:
            raise ValueError(f"{text!r} is not a version; give one as a command printed it") from exc
        if not raw or text in _NAMES.values():
            raise ValueError(f"{text!r} is not the version of a record")
        return cls(raw)


NEW: Final = Version(b"\x00new")
"""Create only: the record must not exist."""

ANY: Final = Version(b"\x00any")
"""Any version, also none: for repair tools only. A caller must always pass it explicitly."""

_NAMES: Final = {NEW: "NEW", ANY: "ANY"}


@dataclass(frozen=True, slots=True)
class Versioned(Generic[T]):
    """A value together with the version of the write that stored it."""

    value: T
    version: Version
