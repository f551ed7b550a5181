"""Stamps: what a record's version is made of, in the stores where we choose it ourselves.

A stamp numbers a write of a record, and carries the random token of that write and of the one before it. The number
grows by exactly one per write, deletes included. The first stamp of a record of which the store has no trace takes its
number from the clock, in microseconds. So no stamp ever repeats for a key. A writer that lost an answer can tell from
the record what became of its write: see `judge`.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, Self

from hedwig.clock import Clock
from hedwig.metadata.calls.attempts import Verdict

__all__ = [
    "LIVE",
    "STAMP_BYTES",
    "TOKEN_BYTES",
    "TOMBSTONE",
    "Stamp",
    "are_live",
    "is_tombstone",
    "judge",
    "make_token",
]

TOKEN_BYTES: Final = 8
LIVE: Final = b"L"
TOMBSTONE: Final = b"T"

_FORMAT: Final = struct.Struct(">cQ8s8s")
STAMP_BYTES: Final = _FORMAT.size
_NO_TOKEN: Final = bytes(TOKEN_BYTES)
_LIVE_BYTE: Final = LIVE[0]


@dataclass(frozen=True, slots=True)
class Stamp:
    """One write of a record: its number, its token, the token of the write before, and whether the record lives."""

    number: int
    token: bytes
    previous: bytes = _NO_TOKEN
    live: bool = True

    @classmethod
    def first(cls, clock: Clock, token: bytes) -> Self:
        """Return the first stamp of a record of which the store has no trace."""
        return cls(int(clock.wall() * 1_000_000), token)

    def next(self, token: bytes, *, live: bool = True) -> "Stamp":
        """Return the stamp of the write after this one; with `live` False it deletes the record."""
        return Stamp(self.number + 1, token, self.token, live)

    @property
    def is_first(self) -> bool:
        """Say whether no write came before this one."""
        return self.previous == _NO_TOKEN

    def encode(self) -> bytes:
        """Return 25 bytes: `L` (live) or `T` (deleted), the number (big-endian), the two tokens."""
        return _FORMAT.pack(LIVE if self.live else TOMBSTONE, self.number, self.token, self.previous)

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """Read what `encode` made. Raises ValueError for other bytes."""
        if len(raw) != STAMP_BYTES or raw[:1] not in (LIVE, TOMBSTONE):
            raise ValueError(f"a stamp has {STAMP_BYTES} bytes and begins with L or T, not {raw[:STAMP_BYTES]!r}")
        kind, number, token, previous = _FORMAT.unpack(raw)
        return cls(number, token, previous, kind == LIVE)


def are_live(raws: Iterable[bytes]) -> bool:
    """Say whether all of these are stamps of live records, which `Stamp.decode` would take."""
    return all(len(raw) == STAMP_BYTES and raw[0] == _LIVE_BYTE for raw in raws)


def is_tombstone(raw: bytes) -> bool:
    """Say whether this is the stamp of a deleted record, which `Stamp.decode` would take."""
    return len(raw) == STAMP_BYTES and raw.startswith(TOMBSTONE)


def make_token(source: Random) -> bytes:
    """Return a new token, never the one that means `no write before`."""
    return (source.getrandbits(8 * TOKEN_BYTES) or 1).to_bytes(TOKEN_BYTES, "big")


def judge(mine: Stamp, current: Stamp | None) -> Verdict:
    """Say what `current`, read after a refusal, proves about the write `mine`, one attempt of which got no answer.

    The number of `mine` is the one directly after the version that it expected, or the clock's for a first write.
    """
    if current is None:
        # If applied, the write would have left at least a tombstone, and those outlive every call by far.
        return Verdict.REFUSED
    if mine.token in (current.token, current.previous):
        return Verdict.APPLIED
    if current.number <= mine.number:
        # If applied, mine would have this number, and every later write a higher one.
        return Verdict.REFUSED
    if mine.is_first and current.is_first:
        # Another first write made the record that mine was to make.
        return Verdict.REFUSED
    return Verdict.UNCERTAIN
