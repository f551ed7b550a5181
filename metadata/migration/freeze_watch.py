"""Writes to a store by a process that a migration does not know, such as a command that loads very many rows.

A migration (metadata/freezing.py) waits for hubs, which are registered, and for no other writer. Checking its record
before a write prevents nothing: the freeze may begin while the write is on its way. Checking after the write proves
what became of it. If the store is not frozen then, every later freeze finds the write done. Once its freeze has begun,
a migration compares everything, or everything that was changed. If the store is frozen, the write may have come too
late for that.

So check before and after each write. Count a write as done only if the store was not frozen afterwards, and repeat the
others in the new store.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hedwig.clock import Clock
from hedwig.errors import HedwigError
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.freezing import Freeze, read_freeze

__all__ = ["FreezeWatch", "StoreFrozenError"]

T = TypeVar("T")

_LOOK_S: Final = 1.0
"""A check younger than this is not repeated before a write, since that check only saves useless writes."""


class StoreFrozenError(HedwigError):
    """A store is frozen, or its records were moved. `freeze` says for which migration."""

    def __init__(self, freeze: Freeze) -> None:
        super().__init__(freeze.what)
        self.freeze = freeze


class FreezeWatch:
    """Watches one store for a freeze while one process writes to it."""

    def __init__(self, records: NamedRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._seen_at: float | None = None

    async def check(self) -> None:
        """Return if the store is not frozen now. Raises StoreFrozenError; as `read_freeze`."""
        began = self._clock.monotonic()
        freeze = await read_freeze(self._records)
        if freeze is not None and freeze.forbids_writes:
            self._seen_at = None
            raise StoreFrozenError(freeze)
        self._seen_at = began

    async def carry_out(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`, which writes; return its result if no migration can have missed what it wrote.

        Several calls may run side by side.

        Raises: StoreFrozenError - `work` was not begun, or it is not known whether the new store has what it wrote; as
            `read_freeze` - the same is not known; what `work` raises.
        """
        if self._seen_at is None or self._clock.monotonic() - self._seen_at >= _LOOK_S:
            await self.check()
        result = await work()
        await self.check()
        return result
