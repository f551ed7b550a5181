"""Named records that stop a test's actor before a chosen request, until the test lets it go on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hedwig.metadata import NamedRecords

__all__ = ["NamesInSteps", "Steps"]


@dataclass(slots=True)
class Steps:
    """The steps of one actor. It stops before step `stop`, counted from 0, until it may go on."""

    stop: int
    taken: int = 0
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)
    stands: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> None:
        if self.taken == self.stop:
            self.stands.set()
            await self.may_go_on.wait()
        self.taken += 1


class NamesInSteps:
    """Named records, each request to which is a step."""

    def __init__(self, records: NamedRecords, next_step: Callable[[], Awaitable[None]]) -> None:
        self._records = records
        self._next_step = next_step

    async def read(self, name: str) -> bytes | None:
        await self._next_step()
        return await self._records.read(name)

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        await self._next_step()
        return await self._records.replace(name, expected, value)

    async def delete(self, name: str, expected: bytes) -> bool:
        await self._next_step()
        return await self._records.delete(name, expected)

    async def names(self, prefix: str) -> Sequence[str]:
        await self._next_step()
        return await self._records.names(prefix)
