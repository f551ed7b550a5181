"""The changes of an HBase store: the records whose stamps region servers wrote since some time, read again and again.

Nothing is kept for it, and nobody who writes needs to know of it. What it rests on:

- Every write and every delete of a record writes its stamp anew, and no stamp comes twice. (metadata/hbase/tables.py)
- A stamp's cell carries the time of the region server that wrote it, and that time lies little before the write becomes
  visible. How little is only known by asking: before each pass over the tables every write that is under way is waited
  for. What is left, and the difference of the servers' clocks, is the margin by which each pass begins earlier.
- So each pass meets again what was written shortly before the one before. Its stamps are known by then.
- A record that was deleted stays as a tombstone until `sweep` removes it, which spares those that are still to be seen.
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
"""By how much a stamp's time may lie before that of another server after which it became visible.

60 s: the clocks of two region servers (a master refuses those that differ from its own by more than 30 s,
hbase.master.maxclockskew). 120 s: what a write may wait between getting its time and being logged
(hbase.busy.wait.duration, twice that for a row mutation of several parts). 30 s more.
"""
_KNOWN_MAX: Final = 1 << 19
"""So many stamps are remembered, some 60 MB; those beyond are told once more for as long as the margin lasts."""


class HBaseChanges:
    """The Changes of one open namespace, in the tables given."""

    def __init__(self, tables: Sequence[RecentTable], reader: ChangeReader, *, known_max: int = _KNOWN_MAX) -> None:
        self._tables = tables
        self._reader = reader
        self._known_max = known_max
        self._since_ms = 0
        self._known: set[bytes] = set()
        """Stamps that were met by the pass before; those that this one may meet are among them."""
        self._pass: _Pass | None = None
        self._found: dict[ChangedRecord, None] = {}

    async def begin(self) -> None:
        self._pass, self._known = None, set()
        self._found.clear()
        # A pass long after this, as the one in the pause of a migration, finds little in memory then.
        await _all_of(table.write_files() for table in self._tables)
        self._since_ms = await self._reader.begin() - MARGIN_MS
        await self._wait_for_writes()
        # What is there already is no change from now on.
        first = self._pass_from(self._since_ms, self._since_ms, tells=False)
        while await first.go_on():
            pass
        self._known = first.known

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        is_fresh = False
        while len(self._found) < most:
            if self._pass is None:
                if is_fresh:
                    # A whole pass, begun after this was, has found no more.
                    break
                self._pass, is_fresh = await self._begin_pass(), True
            if not await self._pass.go_on():
                self._since_ms, self._known, self._pass = self._pass.next_ms, self._pass.known, None
        taken = list(self._found)[:most]
        for record in taken:
            del self._found[record]
        return taken

    async def end(self) -> None:
        await self._reader.end()

    async def _begin_pass(self) -> "_Pass":
        # The time is asked for before the writes are waited for: all that was written by then is met by this pass, so
        # the next one has to begin with this time.
        now_ms = await self._reader.renew(self._since_ms)
        await self._wait_for_writes()
        return self._pass_from(self._since_ms, max(self._since_ms, now_ms - MARGIN_MS))

    def _pass_from(self, since_ms: int, next_ms: int, *, tells: bool = True) -> "_Pass":
        known: set[bytes] = set()

        def absorb(table: RecentTable, rows: Sequence[Row]) -> None:
            for row in rows:
                stamp = table.stamp(row)
                if tells and stamp not in self._known:
                    self._found[table.record(row)] = None
                if len(known) < self._known_max and _never_repeats(stamp):
                    known.add(stamp)

        return _Pass([table.since(since_ms, absorb) for table in self._tables], known, next_ms)

    async def _wait_for_writes(self) -> None:
        await _all_of(table.wait_for_writes() for table in self._tables)


class _Pass:
    """One pass over all tables. The next one begins with what was written at `next_ms`.

    `known` are the stamps that it has met so far.
    """

    def __init__(self, parts: Sequence[RecentRows], known: set[bytes], next_ms: int) -> None:
        self._parts = parts
        self.known = known
        self.next_ms = next_ms

    async def go_on(self) -> bool:
        """Read a page more of each table; return False if nothing was left to read."""
        left = [part for part in self._parts if not part.is_empty]
        await _all_of(part.read() for part in left)
        return bool(left)


async def _all_of(actions: Iterable[Awaitable[None]]) -> None:
    """Do all of it at once, each to its end, and raise the first error of any."""
    for outcome in await asyncio.gather(*actions, return_exceptions=True):
        if outcome is not None:
            raise outcome


def _never_repeats(stamp: bytes) -> bool:
    """Say whether this is a stamp of ours: what somebody else put there may come again."""
    try:
        Stamp.decode(stamp)
    except ValueError:
        return False
    return True
