"""Writes to a store by somebody whom a migration does not know of, such as a command that loads very many rows.

A migration (metadata/freezing.py) waits for hubs, which are registered, and for nobody else. A look at its record
before a write fences nothing off: the freeze may begin while the write is on its way. A look behind the write proves
what came of it. If the store is not frozen then, every later freeze finds the write done, and a migration compares
everything, or everything that was changed, once its freeze has begun. If the store is frozen, the write may have come
too late to be seen. So whoever takes for done only what was proved so loses nothing: the rest is done again, in the new
store.
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
"""A look that is younger need not be repeated before a write: it only spares writes for nothing."""


class StoreFrozenError(HedwigError):
    """A store is frozen, or what it held was moved. `freeze` says for which migration."""

    def __init__(self, freeze: Freeze) -> None:
        super().__init__(freeze.what)
        self.freeze = freeze


class FreezeWatch:
    """Watches over the writes of one process to one store."""

    def __init__(self, records: NamedRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._seen_at: float | None = None

    async def check(self) -> None:
        """Return if the store is not frozen now. Raises StoreFrozenError; as `read_freeze`."""
        began = self._clock.monotonic()
        found = await read_freeze(self._records)
        if found is not None and found.forbids_writes:
            self._seen_at = None
            raise StoreFrozenError(found)
        self._seen_at = began

    async def carry_out(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` returns, which writes, if no migration can have missed what it wrote.

        Several may run side by side.

        Raises: StoreFrozenError - nothing was begun, or it is not known whether the new store has what was written; as
            `read_freeze`, that is not known; what `work` raises.
        """
        if self._seen_at is None or self._clock.monotonic() - self._seen_at >= _LOOK_S:
            await self.check()
        result = await work()
        await self.check()
        return result
