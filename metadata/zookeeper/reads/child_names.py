"""The names of a node's children, which ZooKeeper sends in one reply, however many they are.

Neither side of a connection can split such a reply. The server builds it whole in its memory, a Java client refuses it
beyond its `jute.maxbuffer`, and kazoo takes any size. So the reader first asks how many children a node has, and does
not ask for the names of too many. Names are kept packed, each in one byte more than its own length. As a list of
strings they would take four times as much.
"""

import asyncio
import heapq
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetChildren

from hedwig.clock import Deadline
from hedwig.errors import TooManyNamesError
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.zookeeper.writes.guarded_read import answer, reading
from hedwig.zookeeper import Bridge, Request, exists

__all__ = ["ChildNames", "count_children", "read_children"]

_LENGTH: Final = struct.Struct(">i")
_RUN: Final = 32_768
"""How many names are unpacked and sorted at a time."""
_BLOCK_BYTES: Final = 16_384
_AT_ONCE: Final = 4096
"""This many names, or more, are sorted in a thread of their own, so that the event loop runs on meanwhile."""

Reply: TypeAlias = "bytes | memoryview[int]"


class ChildNames:
    """The names in one reply, in order."""

    __slots__ = ("_length", "_runs")

    def __init__(self, reply: Reply) -> None:
        """Take the body of a reply: how many, then the length and the UTF-8 of each. Raises struct.error if it is none.

        Names hold no zero byte, so a zero byte separates them.
        """
        self._length: int = max(0, _LENGTH.unpack_from(reply, 0)[0])
        self._runs: list[bytes] = []
        names = _names_in(reply, self._length)
        for start in range(0, self._length, _RUN):
            run = [next(names) for _ in range(min(_RUN, self._length - start))]
            run.sort()
            self._runs.append(b"\0".join(run))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return self.since(b"")

    def since(self, first: bytes) -> Iterator[str]:
        """Iterate over the names that do not sort before `first`. A binary search skips the others."""
        ends = [run[_offset_of(first, run) :] for run in self._runs] if first else self._runs
        left = [run for run in ends if run]
        if len(left) == 1:
            return iter(left[0].decode().split("\0"))
        return heapq.merge(*map(_names_of, left))


async def count_children(
    bridge: Bridge, options: StoreOptions, paths: Sequence[str], what: str, deadline: Deadline | None = None
) -> list[int | None]:
    """Return how many children each node has, None for a node that does not exist."""

    async def attempt(deadline: Deadline) -> list[int | None]:
        stats = map(answer, await bridge.send(deadline, *map(exists, paths)))
        return [None if stat is None else int(stat.numChildren) for stat in stats]

    return await reading(options, what, attempt, deadline)


async def read_children(
    bridge: Bridge,
    options: StoreOptions,
    paths: Sequence[str],
    numbers: Sequence[int],
    what: str,
    deadline: Deadline | None = None,
) -> list[ChildNames]:
    """Return the names of the children of each node; none for a node that does not exist.

    Args: numbers - how many children each node was found to have: a node with none is not asked.

    Raises: TooManyNamesError - more than `options.children_max`; nothing was asked for then.
    """
    for path, number in zip(paths, numbers, strict=True):
        if number > options.children_max:
            raise TooManyNamesError(
                f"{path} has {number:,} children, and ZooKeeper sends all their names in one reply. "
                f"The client takes at most {options.children_max:,}, so it asked for none. If both sides have the "
                f"memory, allow more with children_max={number + number // 4} in the URL "
                "(docs/reference/admin.md, Very many topics)"
            )
    wanted = [path for path, number in zip(paths, numbers, strict=True) if number]
    if not wanted:
        return [_NOTHING] * len(paths)

    async def attempt(deadline: Deadline) -> list[Reply]:
        replies = await bridge.send(deadline, *map(_children, wanted))
        return [b"" if isinstance(answer(reply, NoNodeError), NoNodeError) else reply for reply in replies]

    replies = await reading(options, what, attempt, deadline)
    parsed = iter(_parsed(replies) if sum(numbers) < _AT_ONCE else await asyncio.to_thread(_parsed, replies))
    return [next(parsed) if number else _NOTHING for number in numbers]


def _parsed(replies: list[Reply]) -> list[ChildNames]:
    return [ChildNames(reply) if reply else _NOTHING for reply in replies]


class _PackedChildren(GetChildren):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's request with its reply left unparsed. As a list too, the names would be in memory twice."""

    @classmethod
    def deserialize(cls, reply: bytes, offset: int) -> Reply:
        return memoryview(reply)[offset:]


def _children(path: str) -> Request:
    def submit(client: KazooClient) -> Any:
        result = client.handler.async_result()
        # As `get_children_async` does; our sessions have no chroot, and this sets no watch.
        client._call(_PackedChildren(path, None), result)
        return result

    return submit


def _names_in(reply: Reply, number: int) -> Iterator[bytes]:
    at = _LENGTH.size
    unpack, size = _LENGTH.unpack_from, _LENGTH.size
    for _ in range(number):
        end = at + size + unpack(reply, at)[0]
        yield bytes(reply[at + size : end])
        at = end


def _offset_of(first: bytes, run: bytes) -> int:
    """Return the offset in a run of the first name that does not sort before `first`; its end or beyond if none."""
    low, high = 0, len(run)
    while low < high:
        middle = (low + high) // 2
        # The name that the byte in the middle belongs to; a zero byte belongs to the name before it.
        begin = run.rfind(b"\0", low, middle) + 1 or low
        end = run.find(b"\0", middle)
        end = len(run) if end < 0 else end
        if run[begin:end] < first:
            low = end + 1
        else:
            high = begin
    return low


def _names_of(run: bytes) -> Iterator[str]:
    return chain.from_iterable(_blocks(run))


def _blocks(run: bytes) -> Iterator[list[str]]:
    start = 0
    while start <= len(run):
        end = run.find(b"\0", start + _BLOCK_BYTES)
        end = len(run) if end < 0 else end
        yield run[start:end].decode().split("\0")
        start = end + 1


_NOTHING: Final = ChildNames(_LENGTH.pack(0))
