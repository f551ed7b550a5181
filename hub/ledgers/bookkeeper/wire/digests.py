"""Digests of entries, and the keys that are made of a ledger's password."""

import enum
import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from typing import Final

from hedwig.extras import needed

__all__ = ["Digest", "DigestKind", "mac_key", "master_key"]

_INT: Final = struct.Struct(">I")
_LONG: Final = struct.Struct(">Q")


class DigestKind(enum.IntEnum):
    """The digests of BookKeeper, by their numbers in ledger metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


def master_key(password: bytes) -> bytes:
    """Return the 20 bytes that go with every add and every fencing read."""
    return hashlib.sha1(b"ledger" + password).digest()


def mac_key(password: bytes) -> bytes:
    """Return the 20 bytes with which HMAC digests are made."""
    return hashlib.sha1(b"mac" + password).digest()


class Digest:
    """The digest of a ledger's entries: `size` bytes of it follow the header of each."""

    __slots__ = ("_compute", "kind", "size")

    def __init__(self, kind: DigestKind, password: bytes) -> None:
        """Raises: MissingExtraError - CRC32C without the package that computes it."""
        self.kind = kind
        self._compute, self.size = _make(kind, password)

    def of(self, header: bytes, payload: bytes = b"") -> bytes:
        """Return the digest of a header and what belongs to it."""
        return self._compute(header, payload)


_Compute = Callable[[bytes, bytes], bytes]


def _make(kind: DigestKind, password: bytes) -> tuple[_Compute, int]:
    match kind:
        case DigestKind.CRC32:
            return _crc32, 8
        case DigestKind.HMAC:
            key = mac_key(password)
            return lambda header, payload: hmac.digest(key, header + payload, "sha1"), 20
        case DigestKind.CRC32C:
            return _crc32c(), 4
        case DigestKind.DUMMY:
            return _nothing, 0


def _crc32(header: bytes, payload: bytes) -> bytes:
    return _LONG.pack(zlib.crc32(payload, zlib.crc32(header)))


def _nothing(_header: bytes, _payload: bytes) -> bytes:
    return b""


def _crc32c() -> _Compute:
    with needed("bookkeeper", "CRC32C digests need", instead="choose CRC32"):
        from google_crc32c import extend

    def compute(header: bytes, payload: bytes) -> bytes:
        return _INT.pack(extend(extend(0, header), payload))

    return compute
