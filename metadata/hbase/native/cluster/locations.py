"""Locations: which HBase region holds a row, and on which server. A location is kept until a failure disproves it."""

from bisect import bisect_right, insort
from typing import Final, Protocol

from hedwig.clock import Clock, Deadline
from hedwig.concurrency.shared_work import SharedWork
from hedwig.metadata.hbase.native.wire.regions import NowhereError, Region, Server
from hedwig.outcomes import NotAppliedError

__all__ = ["Directory", "Locations"]

_LOOKUPS_MAX: Final = 8
"""Up to N regions are looked up one by one. Then the locations of the whole table are read again."""
_REST_FIRST_S: Final = 0.01
_REST_MAX_S: Final = 0.25
"""The longest rest after the directory did not answer, or the region was open nowhere.

Else all waiting callers would ask in turn. After the kill of a region server, 600 callers asked hbase:meta 400 times a
second, which took a sixth of the processor time that the server needed to open its regions.
"""


class Directory(Protocol):
    """The source of the locations of regions. Each question takes a round trip.

    `regions` and `region` raise NotAppliedError if the directory does not answer for now.
    """

    def describe(self) -> str:
        """Say how the cluster is reached, for people."""
        ...

    async def regions(self, table: str) -> list[Region]:
        """Return the open regions of a table, in the order of their rows; none if there is no such table."""
        ...

    async def region(self, table: str, row: bytes) -> Region | None:
        """Return the open region that holds `row`; None if there is no such table.

        Raises: NowhereError - the region is open nowhere.
        """
        ...


class Locations:
    """The known regions of one table."""

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
        """Whether the last lookup found no such table."""

    def find(self, row: bytes) -> Region | None:
        """Return the known region that holds `row`, or None."""
        at = bisect_right(self._regions, row, key=_start) - 1
        region = self._regions[at] if at >= 0 else None
        return region if region is not None and region.holds(row) else None

    def forget(self, region: Region) -> None:
        """Drop a region that was not at its known location. A region that was learnt since then stays."""
        self._regions = [one for one in self._regions if one is not region]

    def forget_server(self, server: Server) -> None:
        """Drop all regions on a server."""
        self._regions = [one for one in self._regions if one.server != server]

    def move(self, region: Region, server: Server) -> None:
        """Record that a region is on another server now."""
        for at, one in enumerate(self._regions):
            if one is region:
                self._regions[at] = Region(region.name, region.table, region.start, region.end, server)

    async def look_up(self, row: bytes, deadline: Deadline) -> None:
        """Learn the location of `row`. One lookup runs at a time; other callers wait for it, and look again if needed.

        If the region is open nowhere, this raises NowhereError, or returns without a known region for `row`.

        Raises: as the directory; NotAppliedError - the lookup does not end before the deadline; AbortedError - closed.
        """
        while True:
            is_mine = not self._lookup.is_under_way
            is_whole = False
            try:
                is_whole = await self._lookup.join(lambda: self._look_up(row), deadline)
            except NowhereError:
                # The lookup was for the row of another caller.
                if is_mine or deadline.expired:
                    raise
            if is_mine or is_whole or self.find(row) is not None:
                return

    async def close(self) -> None:
        """Cancel a lookup that is under way."""
        await self._lookup.close()

    async def _look_up(self, row: bytes) -> bool:
        """Look up once, after a rest if the last lookup found nothing. Return whether it read the whole table."""
        rest_s = self._failed_at + self._rest_s - self._clock.monotonic()
        if rest_s > 0:
            await self._clock.sleep(rest_s)
        try:
            is_whole = await self._ask(row)
        except NowhereError:
            # Where one region is open nowhere, others may be too: the next question is for all of them.
            self._lookups_left = 0
            self._rest()
            raise
        except NotAppliedError:
            self._rest()
            raise
        if is_whole and self.find(row) is None:
            self._rest()
        else:
            self._rest_s = 0.0
        return is_whole

    def _rest(self) -> None:
        """Let the next lookup wait, twice as long as this one did."""
        self._rest_s = min(_REST_MAX_S, max(_REST_FIRST_S, 2 * self._rest_s))
        self._failed_at = self._clock.monotonic()

    async def _ask(self, row: bytes) -> bool:
        if self._lookups_left > 0:
            self._lookups_left -= 1
            region = await self._directory.region(self._table, row)
            self.is_missing = region is None
            if region is not None:
                self._learn(region)
            return False
        regions = await self._directory.regions(self._table)
        self.is_missing = not regions
        self._regions = sorted(regions, key=_start)
        self._lookups_left = _LOOKUPS_MAX
        return True

    def _learn(self, region: Region) -> None:
        """Replace all regions that overlap with this one, which are its parents or its daughters."""
        kept = [
            one
            for one in self._regions
            if (one.end and one.end <= region.start) or (region.end and region.end <= one.start)
        ]
        insort(kept, region, key=_start)
        self._regions = kept


def _start(region: Region) -> bytes:
    return region.start
