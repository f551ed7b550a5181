"""The metadata store as one hub sees it: the tables of SQLite in memory, behind a way on which requests get lost.

The conformance suite holds these tables to the contract. The way belongs to the simulation.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar, cast

from hedwig.clock import Deadline
from hedwig.errors import MetadataError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata import MetadataStore, MetadataUrl, StoreOptions
from hedwig.metadata.contract.layout import Layout
from hedwig.metadata.sqlite.factory import SqliteBackend, lay_out
from hedwig.metadata.sqlite.sqlite_thread import SqliteThread

__all__ = ["ModelWay", "open_model", "open_tables"]

T = TypeVar("T")

_URL: Final = MetadataUrl.parse("sqlite://")
_LATE_S: Final = (0.0, 0.0, 0.05, 0.5, 2.0, 6.0)


class _Tables(sqlite3.Connection):
    """A connection of several ways. None of them knows which is the last, so it ends with the last reference."""

    def __del__(self) -> None:
        self.close()


def open_tables() -> sqlite3.Connection:
    """Return new tables without records."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=_Tables)
    lay_out(connection, _URL)
    return connection


class ModelWay:
    """The way of one hub to the tables: requests take time, and may be refused, get lost, or arrive late.

    It stands in for a SqliteThread. `refused`, `lost` and `slow` are chances, and `late_ranges` is that of a request
    about ranges to be late; `is_cut` refuses everything.
    """

    def __init__(self, tables: sqlite3.Connection, random: Random, delay_s: float) -> None:
        self._tables = tables
        self._random = random
        self.delay_s = delay_s
        self.refused = 0.0
        self.lost = 0.0
        self.slow = 0.0
        self.late_ranges = 0.0
        self.is_cut = False
        self.on_answer: Callable[[], None] = lambda: None
        self._is_closed = False
        self.late_owners: set[bytes] = set()
        """The versions of owner records that were written after the writer's request counted as lost."""

    async def run(self, what: str, work: Callable[[sqlite3.Connection], T], deadline: Deadline | None = None) -> T:
        """As SqliteThread.run, but the answer may be lost, also that of a read, which surely wrote nothing."""
        del deadline
        if self._is_closed:
            raise MetadataUnavailableError(f"{what}: the metadata store is closed")
        random = self._random
        await self._travel()
        if "persistence" in what and random.random() < self.late_ranges:
            await asyncio.sleep(random.uniform(1.0, 5.0))
        if self.is_cut or random.random() < self.refused:
            raise MetadataUnavailableError(f"{what}: nobody answers")
        if random.random() < self.lost:
            if random.random() < 0.6:
                asyncio.get_running_loop().call_later(random.choice(_LATE_S), self._do_late, work)
            await asyncio.sleep(random.choice((0.02, 0.5)))
            # Raised for a read too: readers treat both errors alike.
            raise UncertainStateError(f"{what}: no answer")
        result = work(self._tables)
        await self._travel()
        self.on_answer()
        return result

    async def close(self) -> None:
        """As SqliteThread.close."""
        self._is_closed = True

    def heal(self) -> None:
        self.refused = self.lost = self.slow = self.late_ranges = 0.0
        self.is_cut = False

    async def _travel(self) -> None:
        random = self._random
        slow_s = random.uniform(0.5, 3.0) if random.random() < self.slow else 0.0
        await asyncio.sleep(slow_s + random.uniform(0.0, 2 * self.delay_s))

    def _do_late(self, work: Callable[[sqlite3.Connection], Any]) -> None:
        before = self._owner_versions()
        try:
            work(self._tables)
        except MetadataError:
            return  # Refused by its version. No hub waits for the answer.
        self.late_owners |= self._owner_versions() - before

    def _owner_versions(self) -> set[bytes]:
        return {version for (version,) in self._tables.execute("SELECT version FROM ownership")}


def open_model(way: ModelWay, options: StoreOptions) -> MetadataStore:
    """Return the metadata store that is reached over `way`."""
    thread = cast(SqliteThread, way)
    layout = Layout(kind="sqlite", store_id="model")
    return MetadataStore(_URL, SqliteBackend(_URL, layout, thread, thread, options), options)
