"""Key ranges in ZooKeeper: all topics are listed once, and each range names its own.

The names of a node's children come in one reply, so a reader of one range would receive all of them. A listing is kept
packed: the names one behind the other, and two numbers for each.
"""

import zlib
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import accumulate
from typing import Final

import msgpack

from hedwig.metadata.contract.key_ranges import KeyRange, steps
from hedwig.model import Topic

__all__ = ["Shares", "listed_topics"]

_LEVEL: Final = 1
"""Sorted names have much in common, so the quickest compression is good enough."""
_NAMES_BYTES: Final = 16 << 20
"""A range ends at this many bytes of names. It travels in one message, and its reader unpacks all of it at once."""


class Shares:
    """Topics that have records called `record_name`, in order, each with the number of these."""

    def __init__(self, record_name: str) -> None:
        self._record_name = record_name
        self._packed = bytearray()
        self._starts = array("q")
        self._records = array("q")

    async def take(self, topics: AsyncIterator[tuple[Topic, Mapping[str, int]]]) -> None:
        """Add the topics that a listing finds."""
        packer = msgpack.Packer()
        async for topic, records in topics:
            if number := records.get(self._record_name, 0):
                self._starts.append(len(self._packed))
                self._records.append(number)
                self._packed += packer.pack(topic)
                self._packed += packer.pack(number)

    def ranges(self, kind: str, prefix: bytes, parts: int, rows_min: int) -> list[KeyRange]:
        """Return the topics in at most `parts` ranges of about equally many records; one empty range if there are none.

        A range ends at `_NAMES_BYTES` too, as far as `parts` allows.
        """
        # Ranges that end for the bytes of their names come on top of those that end for their records. Up to half of
        # `parts` is kept for them, and none if one range holds all names.
        room = max(_NAMES_BYTES, -(-2 * len(self._packed) // parts))
        step = steps(sum(self._records), parts - len(self._packed) // room, rows_min)
        firsts, taken = [0], 0
        for index, before in enumerate(accumulate(self._records[:-1], initial=0)):
            if before - taken >= step or self._offset(index) - self._offset(firsts[-1]) >= room:
                firsts.append(index)
                taken = before
        lasts = [*firsts[1:], len(self._records)]
        return [
            KeyRange(
                kind=kind,
                prefix=prefix,
                listed=zlib.compress(self._packed[self._offset(first) : self._offset(last)], _LEVEL),
                rows=sum(self._records[first:last]),
            )
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def _offset(self, index: int) -> int:
        return self._starts[index] if index < len(self._starts) else len(self._packed)


def listed_topics(listed: bytes) -> Iterator[tuple[Topic, int]]:
    """Iterate over the topics of a range, each with how many records it had."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(zlib.decompress(listed))
    for topic in unpacker:
        yield Topic(topic), unpacker.unpack()
