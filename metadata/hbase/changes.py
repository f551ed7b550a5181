"""The changes of an HBase store: the records whose stamps region servers wrote since some time.

The reader makes one pass over the tables after the other. The store keeps nothing for it, and writers do not know of
it. It relies on these facts:

- Every write and every delete of a record writes a new stamp, and no stamp repeats (metadata/hbase/tables.py).
- A stamp's cell has the time of the region server that wrote it. The write becomes visible a little later.
  To bound that delay, the reader waits before each pass until every write under way is visible. The rest of the delay,
  and the difference between the servers' clocks, is the margin by which each pass begins earlier.
- So each pass reads again what was written shortly before the previous pass. The reader knows these stamps already.
- A deleted record stays as a tombstone until `sweep` removes it. `sweep` keeps those that the reader has still to see.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from hedwig.metadata.contract.changes import ChangedRecord
from hedwig.metadata.hbase.change_reader import ChangeReader
from hedwig.metadata.hbase.driver import Row
from hedwig.metadata.hbase.recent_rows import RecentRows, RecentTable
from hedwig.metadata.records.stamps import Stamp

__all__ = ["MARGIN_MS", "HBaseChanges"]

MARGIN_MS: Final = 210_000
"""How much earlier a stamp's time may be than another server's time after which the stamp became visible.

It is the sum of three parts:

- 60 s for the clocks of two region servers. A master refuses a server whose clock differs from its own by more than
  30 s (hbase.master.maxclockskew).
- 120 s that a write may wait between getting its time and being logged (hbase.busy.wait.duration, twice that for a row
  mutation of several parts).
- 30 s more.
"""
_KNOWN_MAX: Final = 1 << 19
"""A pass remembers at most this number of stamps, about 60 MB.

Each pass reports the records of further stamps again, for as long as the margin lasts.
"""


class HBaseChanges:
    """The Changes of one open namespace, in the tables given."""

    def __init__(self, tables: Sequence[RecentTable], reader: ChangeReader, *, known_max: int = _KNOWN_MAX) -> None:
        self._tables = tables
        self._reader = reader
        self._known_max = known_max
        self._since_ms = 0
        self._known: set[bytes] = set()
        """The stamps that the previous pass read. They include those that this pass may read again."""
        self._pass: _Pass | None = None
        self._changed: dict[ChangedRecord, None] = {}

    async def begin(self) -> None:
        self._pass, self._known = None, set()
        self._changed.clear()
        # After this a later pass, such as the one in the pause of a migration, finds little in memory.
        await _all_of(table.write_files() for table in self._tables)
        self._since_ms = await self._reader.begin() - MARGIN_MS
        await self._wait_for_writes()
        # What is in the tables already is no change from now on.
        first = self._pass_from(self._since_ms, self._since_ms, tells=False)
        while await first.go_on():
            pass
        self._known = first.known

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        is_fresh = False
        while len(self._changed) < most:
            if self._pass is None:
                if is_fresh:
                    # A whole pass, which began after this call did, has found no more.
                    break
                self._pass, is_fresh = await self._begin_pass(), True
            if not await self._pass.go_on():
                self._since_ms, self._known, self._pass = self._pass.next_ms, self._pass.known, None
        taken = list(self._changed)[:most]
        for record in taken:
            del self._changed[record]
        return taken

    async def end(self) -> None:
        await self._reader.end()

    async def _begin_pass(self) -> "_Pass":
        # Ask for the time before waiting for the writes. This pass then reads all that was written by that time, so
        # the next pass has to begin with it.
        now_ms = await self._reader.renew(self._since_ms)
        await self._wait_for_writes()
        return self._pass_from(self._since_ms, max(self._since_ms, now_ms - MARGIN_MS))

    def _pass_from(self, since_ms: int, next_ms: int, *, tells: bool = True) -> "_Pass":
        known: set[bytes] = set()

        def absorb(table: RecentTable, rows: Sequence[Row]) -> None:
            for row in rows:
                stamp = table.stamp(row)
                if tells and stamp not in self._known:
                    self._changed[table.record(row)] = None
                if len(known) < self._known_max and _never_repeats(stamp):
                    known.add(stamp)

        return _Pass([table.since(since_ms, absorb) for table in self._tables], known, next_ms)

    async def _wait_for_writes(self) -> None:
        await _all_of(table.wait_for_writes() for table in self._tables)


class _Pass:
    """One pass over all tables. The next pass begins with what was written at `next_ms`.

    `known` are the stamps that this pass has read so far.
    """

    def __init__(self, parts: Sequence[RecentRows], known: set[bytes], next_ms: int) -> None:
        self._parts = parts
        self.known = known
        self.next_ms = next_ms

    async def go_on(self) -> bool:
        """Read one more page of each table. Return False if nothing was left to read."""
        left = [part for part in self._parts if not part.is_empty]
        await _all_of(part.read() for part in left)
        return bool(left)


async def _all_of(actions: Iterable[Awaitable[None]]) -> None:
    """Run all actions at once, each to its end. Then raise the first error, if there is one."""
    for outcome in await asyncio.gather(*actions, return_exceptions=True):
        if outcome is not None:
            raise outcome


def _never_repeats(stamp: bytes) -> bool:
    """Say whether this value is a stamp. Any other value, which another program wrote, may repeat."""
    try:
        Stamp.decode(stamp)
    except ValueError:
        return False
    return True
