"""The rows of a table that were written lately, found by the time at which region servers wrote their stamps.

Every write and every delete of a record writes a new stamp, so the cells of one column show all changes. HBase skips
the store files whose newest cell is older than the given time. So the search costs little more than the new rows do.
But HBase searches all that its servers have in memory.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from hedwig.clock import Deadline
from hedwig.errors import HedwigError
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.changes import ChangedRecord
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.hbase.driver import HBaseDriver, Row, ScanRange
from hedwig.metadata.hbase.keys import BUCKETS, after, bucket_of, bucket_start, split_row
from hedwig.metadata.hbase.schema import columns_of
from hedwig.outcomes import AbortedError, NotAppliedError, OutcomeUnknownError

__all__ = ["RecentRows", "RecentTable"]

_log = logging.getLogger(__name__)

_SLICES: Final = 16
"""The first search reads one Nth of a table."""
_QUICK_S: Final = 0.2
"""An answer within this time makes the next slice twice as large, a later one half as large."""
_TRIES: Final = 6
"""A request for a page may take one Nth of the operation timeout. After a failure the next one has a smaller slice."""
_LESS: Final = 8
_PAGES: Final = 4
"""A page has N times as many rows as that of a listing, since rows of one small cell are small."""


class RecentTable:
    """The table of one kind of records."""

    def __init__(self, kind: RecordKind[Any], table: str, driver: HBaseDriver, options: StoreOptions) -> None:
        self.kind = kind
        self._table = table
        self._driver = driver
        self._options = options
        self._columns = columns_of(kind)
        self._rows_max = _PAGES * options.page_rows

    async def wait_for_writes(self) -> None:
        """Return once every write that region servers had begun is visible. Raises MetadataUnavailableError."""
        attempts = Attempts(self._options, f"wait for the writes of {self._table}")
        await attempts.read(lambda deadline: self._driver.wait_for_writes(self._table, self._columns.absent, deadline))

    async def write_files(self) -> None:
        """Flush all that was written so far into files. A failure is only logged, since files only speed up searches.

        The next searches then find less in the memory of the servers.
        """
        deadline = Deadline.after(self._options.clock, self._options.operation_timeout_s)
        try:
            await self._driver.flush_table(self._table, deadline)
        except (HedwigError, NotAppliedError, OutcomeUnknownError, AbortedError) as exc:
            _log.info(
                "%s stays in the memory of its servers, so that its changes take longer to find: %s", self._table, exc
            )

    def since(self, time_ms: int, absorb: "Absorb") -> "RecentRows":
        """Return the rows of which the stamp was written at `time_ms` or later, by the clock of its region server.

        `absorb` receives them, page by page.
        """
        return RecentRows(self, time_ms, absorb)

    def stamp(self, row: Row) -> bytes:
        """Return the stored stamp of such a row."""
        return row.cells[self._columns.version].value

    def record(self, row: Row) -> ChangedRecord:
        """Return the record that a row holds, or held."""
        topic, subscriber = split_row(row.key)
        return ChangedRecord(self.kind, RecordKey(topic, subscriber if self.kind.has_subscriber else None))

    async def read(self, part: "RecentRows") -> None:
        """Pass the first unread rows of `part` to its `absorb`, and move its start behind them."""

        async def attempt(deadline: Deadline) -> tuple[list[Row], bytes]:
            stop = part.stop()
            rows = ScanRange(start=part.start, stop=stop, columns=(self._columns.version,), since_ms=part.since_ms)
            share_s = self._options.operation_timeout_s / _TRIES
            until = Deadline.after(self._options.clock, min(share_s, deadline.remaining_s()))
            try:
                return await self._driver.scan(self._table, rows, self._rows_max, until), stop
            except (NotAppliedError, OutcomeUnknownError):
                part.shrink(_LESS)
                raise

        asked_at = self._options.clock.monotonic()
        changed, stop = await Attempts(self._options, f"list what changed in {self._table}").read(attempt)
        # From here on nothing waits. So rows that `absorb` received are done, and a call that fails or is cancelled
        # leaves the start of `part` as it was.
        part.absorb(self, changed)
        if len(changed) == self._rows_max:
            part.start = after(changed[-1].key)
        else:
            if self._options.clock.monotonic() - asked_at < _QUICK_S:
                part.grow()
            else:
                part.shrink(2)
            part.start = stop


Absorb: TypeAlias = Callable[[RecentTable, Sequence[Row]], None]
"""A function that takes rows of a table, without waiting for anything."""


class RecentRows:
    """The unread rows of a table that were written since some time, in their order.

    A server may search long without finding anything, and no call may outlast its deadline. So each call searches one
    slice of the hash. The slices grow as long as the server answers quickly.
    """

    def __init__(self, table: RecentTable, since_ms: int, absorb: Absorb) -> None:
        self._table = table
        self.since_ms = since_ms
        self.absorb = absorb
        self.start = bucket_start(0)
        self._buckets = BUCKETS // _SLICES

    @property
    def is_empty(self) -> bool:
        return self.start >= bucket_start(BUCKETS)

    async def read(self) -> None:
        """Pass on the next rows; there may be none.

        Raises: MetadataUnavailableError - no rows were passed on. Call again.
        """
        await self._table.read(self)

    def stop(self) -> bytes:
        """Return where the next slice ends."""
        return bucket_start(min(bucket_of(self.start) + self._buckets, BUCKETS))

    def grow(self) -> None:
        self._buckets = min(2 * self._buckets, BUCKETS)

    def shrink(self, times: int) -> None:
        self._buckets = max(self._buckets // times, 1)
