"""The content of a segment file: a header, and records behind it. All numbers are big-endian."""

import enum
import struct
from dataclasses import dataclass
from typing import Final, Self
from zlib import crc32

from hedwig.errors import ConfigurationError

__all__ = [
    "FIRST_RECORD",
    "MARKER",
    "RECORD_HEADER_BYTES",
    "RecordFields",
    "SegmentHeader",
    "SegmentRecordKind",
    "UnreadableHeaderError",
    "encode_record",
    "parse_record_header",
]


class SegmentRecordKind(enum.IntEnum):
    """What a record says of its ledger. Its entry field holds the number behind the arrow."""

    CREATE = 1  # it exists -> 0
    ENTRY = 2  # this is an entry -> entry id
    CLOSE = 3  # it was sealed by its writer -> last entry id + 1
    FENCE = 4  # it was sealed by the hub that took it over -> last entry id + 1
    DELETE = 5  # it is deleted; no other record of it counts, before or after -> 0


MARKER: Final = b"HLr"
_CHECKSUM = struct.Struct(">I")
# marker, kind, payload bytes, CRC-32 of the payload, bytes back to the start of the group, ledger id, entry field
_FIELDS = struct.Struct(">3sBIIIQQ")
_HEADER = struct.Struct(">I3sBIIIQQ")
RECORD_HEADER_BYTES: Final = _HEADER.size
_KIND_MAX: Final = max(SegmentRecordKind)

RecordFields = tuple[int, int, int, int, int, int]
"""Kind, payload bytes, CRC-32 of the payload, bytes back to the start of its group, ledger id, entry field."""


def encode_record(
    parts: list[bytes], salt: int, offset: int, group_offset: int, kind: int, ledger_id: int, entry: int, payload: bytes
) -> int:
    """Append a record's bytes to `parts`; return the offset behind it.

    The header's checksum begins with the segment's salt plus the record's offset. So neither bytes left over from
    another file nor a payload that contains the image of a record pass for a record.
    """
    fields = _FIELDS.pack(MARKER, kind, len(payload), crc32(payload), offset - group_offset, ledger_id, entry)
    parts.append(_CHECKSUM.pack(crc32(fields, (salt + offset) & 0xFFFFFFFF)))
    parts.append(fields)
    parts.append(payload)
    return offset + RECORD_HEADER_BYTES + len(payload)


def parse_record_header(data: bytes, at: int, salt: int, offset: int) -> RecordFields | None:
    """Return the fields of the record header at `data[at:]`, None if there is no whole one.

    `offset` is where it begins in the segment file.
    """
    checksum, marker, kind, length, payload_checksum, back, ledger_id, entry = _HEADER.unpack_from(data, at)
    if marker != MARKER or crc32(data[at + 4 : at + RECORD_HEADER_BYTES], (salt + offset) & 0xFFFFFFFF) != checksum:
        return None
    if not 1 <= kind <= _KIND_MAX:
        return None
    return kind, length, payload_checksum, back, ledger_id, entry


class UnreadableHeaderError(Exception):
    """A segment header that is torn or damaged."""


_MAGIC: Final = b"HEDWIGLS"
_MAJOR: Final = 1
_SEGMENT = struct.Struct(">8sHHIQQQQ")
FIRST_RECORD: Final = 64
"""The offset of the first record of a segment. The header, padded with zeros, takes the bytes before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """How a segment begins. It is synced before the first record is written.

    `previous` and `previous_end` say where the segment written before ends. Bytes behind that were never acknowledged,
    and do not count. `next_ledger_id` is above every id that was given before this segment.
    """

    number: int
    salt: int
    previous: int
    previous_end: int
    next_ledger_id: int

    def encode(self) -> bytes:
        data = _SEGMENT.pack(
            _MAGIC, _MAJOR, 0, self.salt, self.number, self.previous, self.previous_end, self.next_ledger_id
        )
        return (data + _CHECKSUM.pack(crc32(data))).ljust(FIRST_RECORD, b"\0")

    @classmethod
    def decode(cls, data: bytes, name: str) -> Self:
        """Return the header in `data`, the first bytes of the file `name`.

        Raises: UnreadableHeaderError - it is torn or damaged; ConfigurationError - a newer major format.
        """
        if len(data) < FIRST_RECORD:
            raise UnreadableHeaderError("it is cut off")
        if not data.startswith(_MAGIC) or _CHECKSUM.unpack_from(data, _SEGMENT.size)[0] != crc32(data[: _SEGMENT.size]):
            raise UnreadableHeaderError("its checksum does not fit")
        _, major, _, salt, number, previous, previous_end, next_ledger_id = _SEGMENT.unpack_from(data)
        if major != _MAJOR:
            raise ConfigurationError(
                f"{name} has the format {major} of local ledgers, this program knows {_MAJOR}: use a newer Hedwig"
            )
        return cls(
            number=number, salt=salt, previous=previous, previous_end=previous_end, next_ledger_id=next_ledger_id
        )
