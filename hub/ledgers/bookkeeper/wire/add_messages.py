"""The messages of the add path, by hand. A protobuf library takes several times as long, and each entry has six.

The encoder writes what protobuf would write for the same fields, byte for byte. The decoder reads only a successful
answer as bookies write it, and leaves all else to protobuf.
"""

import struct
from typing import Final

from hedwig.hub.ledgers.bookkeeper.wire.requests import AddEntry

__all__ = ["FIRST_TRANSACTION", "TRANSACTIONS_END", "added_transaction", "encode_add", "varint"]

FIRST_TRANSACTION: Final = 1 << 28
TRANSACTIONS_END: Final = 1 << 35
"""A number between these takes five bytes, so that requests and answers have a fixed form."""

_HEADER: Final = bytes.fromhex("08 03 10 02 18")
"""Version 3, operation "add", and the tag of the transaction."""
_PRIORITY: Final = bytes.fromhex("20 64")
_ADD_REQUEST: Final = bytes.fromhex("aa 06")
_LEDGER: Final = b"\x08"
_ENTRY: Final = b"\x10"
_KEY: Final = b"\x1a"
_BODY: Final = b"\x22"
_RECOVERY_FLAG: Final = bytes.fromhex("a0 06 01")

_BEGIN: Final = b"\x0a\x0a" + _HEADER
"""Requests and answers begin with the same header."""
_HEAD: Final = struct.Struct(f">I{len(_BEGIN)}s5B")
_NUMBER_AT: Final = len(_BEGIN)
_STATUS_AT: Final = _NUMBER_AT + 5
_DONE: Final = bytes.fromhex("10 00 aa 06")
"""The status, and the tag of the inner answer."""
_INNER_AT: Final = _STATUS_AT + len(_DONE)
_INNER_DONE: Final = bytes.fromhex("08 00 10")
"""The inner status, and the tag of the ledger."""


def encode_add(transaction: int, request: AddEntry) -> tuple[bytes, bytes]:
    """Return the frame of an add in two parts. The second is long, and the same for every bookie."""
    tail = request.encoded
    if tail is None:
        tail = request.encoded = _encode_tail(request)
    if FIRST_TRANSACTION <= transaction < TRANSACTIONS_END and not request.is_recovery:
        head = _HEAD.pack(
            _HEAD.size - 4 + len(tail),
            _BEGIN,
            transaction & 0x7F | 0x80,
            transaction >> 7 & 0x7F | 0x80,
            transaction >> 14 & 0x7F | 0x80,
            transaction >> 21 & 0x7F | 0x80,
            transaction >> 28,
        )
        return head, tail
    number = varint(transaction)
    if request.is_recovery:
        number += _PRIORITY
    size = len(_HEADER) + len(number)
    return b"%b\x0a%c%b%b" % ((2 + size + len(tail)).to_bytes(4, "big"), size, _HEADER, number), tail


def _encode_tail(request: AddEntry) -> bytes:
    body = request.body
    message = b"".join(
        (
            _LEDGER,
            varint(request.ledger_id),
            _ENTRY,
            varint(request.entry_id),
            _KEY,
            varint(len(request.master_key)),
            request.master_key,
            _BODY,
            varint(len(body)),
            body,
            _RECOVERY_FLAG if request.is_recovery else b"",
        )
    )
    return b"%b%b%b" % (_ADD_REQUEST, varint(len(message)), message)


def added_transaction(data: bytes, start: int, end: int) -> int | None:
    """Return the transaction whose add succeeded, by the answer in `data[start:end]`; None for any other answer."""
    if not (
        data.startswith(_BEGIN, start)
        and data.startswith(_DONE, start + _STATUS_AT)
        and data.startswith(_INNER_DONE, start + _INNER_AT + 1)
        and data[start + _INNER_AT] == end - start - _INNER_AT - 1
    ):
        return None
    at = start + _NUMBER_AT
    fifth = data[at + 4]
    if fifth > 0x7F or not data[at] & data[at + 1] & data[at + 2] & data[at + 3] & 0x80:
        return None
    return (
        data[at] & 0x7F
        | (data[at + 1] & 0x7F) << 7
        | (data[at + 2] & 0x7F) << 14
        | (data[at + 3] & 0x7F) << 21
        | fifth << 28
    )


def varint(number: int) -> bytes:
    """Return a number that is not negative as protobuf writes it."""
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
