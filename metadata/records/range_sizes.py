"""How many bytes the ledger ranges of a topic take at most in any store. This is arithmetic: nothing is encoded.

The larger of our two encodings counts, so that a record that fits in one store can be migrated to any other.
"""

from typing import Final

from hedwig.model import LedgerRange, LedgerRanges, MessageSeqId, UnknownFields

__all__ = ["stored_bytes"]

_FRAME_BYTES: Final = 8
"""The bytes around the ranges of a record."""


def stored_bytes(record: LedgerRanges) -> int:
    """Return how many bytes a record takes at most, as protobuf and as msgpack."""
    protobuf = msgpack = _FRAME_BYTES + _unknown_bytes(record.unknown)
    for each in record.ranges:
        in_protobuf, in_msgpack = _range_bytes(each)
        protobuf += in_protobuf
        msgpack += in_msgpack
    return max(protobuf, msgpack)


def _range_bytes(each: LedgerRange) -> tuple[int, int]:
    protobuf = 1 + _varint_bytes(each.ledger_id)
    msgpack = 3 + _number_bytes(each.ledger_id)
    if each.start is not None:
        protobuf += 1 + _varint_bytes(each.start)
        msgpack += 2 + _number_bytes(each.start)
    if each.end is not None:
        in_protobuf, in_msgpack = _seq_id_bytes(each.end)
        protobuf += 1 + _varint_bytes(in_protobuf) + in_protobuf
        msgpack += 2 + in_msgpack
    unknown = _unknown_bytes(each.unknown)
    protobuf += unknown
    return 1 + _varint_bytes(protobuf) + protobuf, msgpack + unknown


def _seq_id_bytes(seq_id: MessageSeqId) -> tuple[int, int]:
    protobuf, msgpack = 1 + _varint_bytes(seq_id.local), _number_bytes(seq_id.local)
    if seq_id.remote:
        msgpack += 5
    for each in seq_id.remote:
        size = len(each.region)
        component = 2 + _varint_bytes(size) + size + _varint_bytes(each.seq_id)
        protobuf += 1 + _varint_bytes(component) + component
        msgpack += 6 + size + _number_bytes(each.seq_id)
    return protobuf, msgpack


def _unknown_bytes(unknown: UnknownFields | None) -> int:
    return 0 if unknown is None else len(unknown.payload)


def _varint_bytes(number: int) -> int:
    return (number.bit_length() + 6) // 7 or 1


def _number_bytes(number: int) -> int:
    if number < 0x80:
        return 1
    if number < 0x1_0000:
        return 2 if number < 0x100 else 3
    return 5 if number < 0x1_0000_0000 else 9
