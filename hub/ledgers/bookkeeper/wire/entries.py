"""The bytes of entries and of explicit last adds confirmed, as bookies keep them.

An entry is four signed integers of eight bytes, big-endian, then a digest, then the payload. The integers are the
ledger id, entry id, last add confirmed that its writer knew, and payload bytes of entries 0 to this one. The digest
covers the integers and the payload.

An explicit last add confirmed is two such integers (ledger id, entry id) and the digest over them.
"""

import hmac
import struct
from dataclasses import dataclass
from typing import Final

from hedwig.hub.ledgers.bookkeeper.wire.digests import Digest

__all__ = ["Entry", "UnverifiedError", "decode_entry", "decode_lac", "encode_fields", "encode_lac"]

_HEADER: Final = struct.Struct(">qqqq")
_LAC: Final = struct.Struct(">qq")


class UnverifiedError(Exception):
    """Bytes that are not what was asked for, or do not agree with their digest; internal to the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that its digest vouches for. `length` counts the payload bytes up to this one's last."""

    ledger_id: int
    entry_id: int
    lac: int
    length: int
    payload: bytes


def encode_fields(digest: Digest, ledger_id: int, entry_id: int, lac: int, length: int, payload: bytes) -> bytes:
    """Return the bytes that a bookie keeps of an entry with these fields."""
    header = _HEADER.pack(ledger_id, entry_id, lac, length)
    return b"".join((header, digest.of(header, payload), payload))


def decode_entry(digest: Digest, ledger_id: int, entry_id: int | None, body: bytes) -> Entry:
    """Read and verify an entry; without `entry_id` any entry of the ledger will do.

    Raises: UnverifiedError - another entry, too short, or damaged. Bookies check none of this.
    """
    start = _HEADER.size + digest.size
    if len(body) < start:
        raise UnverifiedError(f"{len(body)} bytes are no entry")
    header = body[: _HEADER.size]
    payload = body[start:]
    actual_ledger, actual_entry, lac, length = _HEADER.unpack(header)
    if not hmac.compare_digest(body[_HEADER.size : start], digest.of(header, payload)):
        raise UnverifiedError("the digest does not agree")
    if actual_ledger != ledger_id or (entry_id is not None and actual_entry != entry_id):
        raise UnverifiedError(f"entry {actual_entry} of ledger {actual_ledger} came instead")
    if actual_entry < 0 or not -1 <= lac < actual_entry or length < len(payload):
        raise UnverifiedError(f"entry {actual_entry} with last add confirmed {lac} and length {length} makes no sense")
    return Entry(ledger_id=actual_ledger, entry_id=actual_entry, lac=lac, length=length, payload=payload)


def encode_lac(digest: Digest, ledger_id: int, lac: int) -> bytes:
    """Return the bytes by which a writer tells bookies its last add confirmed."""
    header = _LAC.pack(ledger_id, lac)
    return header + digest.of(header)


def decode_lac(digest: Digest, ledger_id: int, body: bytes) -> int:
    """Read and verify an explicit last add confirmed. Raises: UnverifiedError."""
    header = body[: _LAC.size]
    if len(body) != _LAC.size + digest.size or not hmac.compare_digest(body[_LAC.size :], digest.of(header)):
        raise UnverifiedError("the digest of a last add confirmed does not agree")
    actual_ledger, lac = _LAC.unpack(header)
    if actual_ledger != ledger_id:
        raise UnverifiedError(f"the last add confirmed of ledger {actual_ledger} came instead")
    return int(lac)
