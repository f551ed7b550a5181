"""The version of a znode's content, and the hints that save its writer a read."""

import struct
from dataclasses import dataclass, field
from typing import Final

from hedwig.versions import Version

__all__ = ["Identity", "ZnodeVersion", "hints_of", "identity_of"]

Identity = tuple[int, int]
"""(czxid, data version): one content of one incarnation of a node; never repeats."""

_MARK: Final = b"z"
_PACKED: Final = struct.Struct(">qi")


@dataclass(frozen=True, slots=True, eq=False)
class ZnodeVersion(Version):
    """A version with the hints that save its writer a read.

    Only `raw` counts for equality. The guard moves when a neighbour is created or deleted, while the record is still
    that of the same write. A version read back from its text has no hints, and costs its writer one more read.

    path - of the node; the guard of another node's parent says nothing about this one's;
    guard - the parent's data version at a moment when the record had this version; None if it is not known;
    token - the token of the write that this version names, empty if it carried none;
    stored - the record's bytes, for a merge; None if they are large or of no use.
    """

    path: str = field(repr=False)
    guard: int | None
    token: bytes
    stored: bytes | None = field(repr=False)

    @classmethod
    def of(cls, identity: Identity, path: str, guard: int | None, token: bytes, stored: bytes | None) -> "ZnodeVersion":
        return cls(_MARK + _PACKED.pack(*identity), path, guard, token, stored)

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Version) else NotImplemented

    __hash__ = Version.__hash__


def hints_of(version: Version, path: str) -> ZnodeVersion | None:
    """Return the hints of `version` for a write to the node at `path`, if it has any."""
    return version if isinstance(version, ZnodeVersion) and version.path == path else None


def identity_of(version: Version) -> Identity | None:
    """Return the identity that `version` names; None if another kind of backend made it."""
    raw = version.raw
    if len(raw) != 1 + _PACKED.size or not raw.startswith(_MARK):
        return None
    czxid, data_version = _PACKED.unpack_from(raw, 1)
    return czxid, data_version
