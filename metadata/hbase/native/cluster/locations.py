"""Locations: which HBase region holds a row, and on which server, remembered until something proves it wrong."""

from bisect import bisect_right, insort
from typing import Final, Protocol

from hedwig.clock import Clock, Deadline
from hedwig.concurrency.shared_work import SharedWork
from hedwig.metadata.hbase.native.wire.regions import NowhereError, Region, Server
from hedwig.outcomes import NotAppliedError

__all__ = ["Directory", "Locations"]

_LOOKUPS_MAX: Final = 8
"""So many regions are looked up one by one; then the whole table is read again."""
_REST_FIRST_S: Final = 0.01
_REST_MAX_S: Final = 0.25
"""How long the directory is let alone when it did not answer. All who wait for it would else ask it in turn."""


class Directory(Protocol):
    """What knows where regions are, and takes a round trip to tell.

    Raises in both looks: NotAppliedError - it does not answer for now.
    """

    def describe(self) -> str:
        """Say how the cluster is reached, for people."""
        ...

    async def regions(self, table: str) -> list[Region]:
        """Return the open regions of a table, in the order of their rows; none if there is no such table."""
        ...

    async def region(self, table: str, row: bytes) -> Region | None:
        """Return the open region that holds `row`; None if there is no such table.

        Raises: NowhereError - it is open nowhere.
        """
        ...


class Locations:
    """What is known of the regions of one table."""

    def __init__(self, table: str, directory: Directory, clock: Clock) -> None:
        self._table = table
        self._directory = directory
        self._clock = clock
        self._regions: list[Region] = []
        self._lookup: SharedWork[bool] = SharedWork(f"find the HBase regions of {table} ({directory.describe()})")
        self._lookups_left = 0
        self._rest_s = 0.0
        self._failed_at = 0.0
        self.is_missing = False
        """Whether the last look found no such table."""

    def find(self, row: bytes) -> Region | None:
        """Return the region that holds `row` as far as is known, else None."""
        at = bisect_right(self._regions, row, key=_start) - 1
        found = self._regions[at] if at >= 0 else None
        return found if found is not None and found.holds(row) else None

    def forget(self, region: Region) -> None:
        """Drop a region that was not where it was believed to be; one that was learnt since stays."""
        self._regions = [one for one in self._regions if one is not region]

    def forget_server(self, server: Server) -> None:
        """Drop all regions on a server."""
        self._regions = [one for one in self._regions if one.server != server]

    def move(self, region: Region, server: Server) -> None:
        """Note that a region is on another server now."""
        for at, one in enumerate(self._regions):
            if one is region:
                self._regions[at] = Region(region.name, region.table, region.start, region.end, server)

    async def look_up(self, row: bytes, deadline: Deadline) -> None:
        """Learn where `row` is, with one look at a time: whoever comes meanwhile waits, and looks again if need be.

        Where the region is open nowhere, that may be raised, or nothing is known of it afterwards.

        Raises: what the directory raises; NotAppliedError - it is not over before the deadline; AbortedError - closed.
        """
        while True:
            is_mine = not self._lookup.is_under_way
            is_whole = False
            try:
                is_whole = await self._lookup.join(lambda: self._look_up(row), deadline)
            except NowhereError:
                # Another row's trouble is not ours.
                if is_mine or deadline.expired:
                    raise
            if is_mine or is_whole or self.find(row) is not None:
                return

    async def close(self) -> None:
        """Give up a look that is under way."""
        await self._lookup.close()

    async def _look_up(self, row: bytes) -> bool:
        """Look once, after a rest if the directory did not answer just now. Returns: whether at the whole table."""
        rest_s = self._failed_at + self._rest_s - self._clock.monotonic()
        if rest_s > 0:
            await self._clock.sleep(rest_s)
        try:
            is_whole = await self._ask(row)
        except NowhereError:
            self._rest_s = 0.0
            raise
        except NotAppliedError:
            self._rest_s = min(_REST_MAX_S, max(_REST_FIRST_S, 2 * self._rest_s))
            self._failed_at = self._clock.monotonic()
            raise
        self._rest_s = 0.0
        return is_whole

    async def _ask(self, row: bytes) -> bool:
        if self._lookups_left > 0:
            self._lookups_left -= 1
            found = await self._directory.region(self._table, row)
            self.is_missing = found is None
            if found is not None:
                self._learn(found)
            return False
        regions = await self._directory.regions(self._table)
        self.is_missing = not regions
        self._regions = sorted(regions, key=_start)
        self._lookups_left = _LOOKUPS_MAX
        return True

    def _learn(self, region: Region) -> None:
        """Put a region in the place of all that overlap with it: its parents, or its daughters."""
        kept = [
            one
            for one in self._regions
            if (one.end and one.end <= region.start) or (region.end and region.end <= one.start)
        ]
        insort(kept, region, key=_start)
        self._regions = kept


def _start(region: Region) -> bytes:
    return region.start
