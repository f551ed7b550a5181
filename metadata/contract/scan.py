"""The bulk scan: every record of a store, topic by topic in the backend's key order, page by page.

A backend may scan all kinds at once (`ScansTopics`). Else the scan reads pages of each manager's records
(`VersionedTable.records`) and merges them by topic. It fetches the next page while it works on the current one. So a
topic's records stand together: its owner, its ledger ranges, its subscriptions. The scan holds a few pages in memory,
independent of the sizes of topics.

A scan is no snapshot of one moment. It returns a record that exists from its start to its end exactly once, as it was
at some moment in between.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from hedwig.errors import CorruptRecordError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import Outcome, RecordKey
from hedwig.metadata.contract.table import VersionedTable
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, Topic
from hedwig.versions import Versioned

__all__ = ["SCAN_ROWS", "Record", "ScannedRecord", "ScansTopics", "merge_records"]

R = TypeVar("R")

Record: TypeAlias = HubInfo | LedgerRanges | SubscriptionData

SCAN_ROWS: Final = 1000
"""The most records in one page of the scan."""


@dataclass(frozen=True, slots=True)
class ScannedRecord:
    """One record of any manager: its kind, its key, and its content or why that cannot be read."""

    kind: RecordKind[Any]
    key: RecordKey
    outcome: Outcome[Any]

    @property
    def error(self) -> CorruptRecordError | None:
        """Return why the record cannot be read, or None."""
        error = self.outcome.error
        assert error is None or isinstance(error, CorruptRecordError), "a scan raises every other error"
        return error

    def read(self) -> Versioned[Any]:
        """Return the record with its version. Raises CorruptRecordError if it cannot be read."""
        self.outcome.check()
        assert self.outcome.record is not None, "a scan names records that are there"
        return self.outcome.record


@runtime_checkable
class ScansTopics(Protocol):
    """A backend that scans all kinds of records together more cheaply than one after the other."""

    def scan_topics(
        self, kinds: Sequence[RecordKind[Any]], prefix: bytes | None, start_after: Topic | None
    ) -> AsyncGenerator[list[ScannedRecord], None]:
        """Iterate over pages as `MetadataStore.scan`; `kinds` has at least one."""
        ...


async def merge_records(
    tables: Sequence[tuple[RecordKind[Any], VersionedTable[Any]]],
    sort_key: Callable[[Topic], bytes],
    prefix: bytes | None,
    start_after: Topic | None,
) -> AsyncGenerator[list[ScannedRecord], None]:
    """Iterate over pages of the records of `tables`, ordered by topic, and within a topic by table."""
    readers = [_Reader(kind, table.records(prefix, start_after), sort_key) for kind, table in tables]
    page: list[ScannedRecord] = []
    try:
        for reader in readers:
            await reader.advance()
        while waiting := [reader for reader in readers if reader.head is not None]:
            least = min(reader.head for reader in waiting if reader.head is not None)
            for reader in waiting:
                while reader.head == least:
                    page += reader.take(SCAN_ROWS - len(page))
                    if len(page) == SCAN_ROWS:
                        yield page
                        page = []
                    await reader.advance()
        if page:
            yield page
    finally:
        for reader in readers:
            await reader.close()


class _Reader(Generic[R]):
    """The records of one table. `head` is the sort key of the topic of the next record, None at the end."""

    def __init__(
        self,
        kind: RecordKind[R],
        pages: AsyncIterator[Sequence[tuple[RecordKey, Outcome[R]]]],
        sort_key: Callable[[Topic], bytes],
    ) -> None:
        self.head: bytes | None = None
        self._topic: Topic | None = None
        self._kind = kind
        self._pages = pages
        self._sort_key = sort_key
        self._page: Sequence[tuple[RecordKey, Outcome[R]]] = ()
        self._position = 0
        self._coming = asyncio.create_task(self._next())

    def take(self, most: int) -> list[ScannedRecord]:
        """Return at most `most` records of the topic at the head, from the current page only."""
        end = self._position
        last = min(len(self._page), end + most)
        while end < last and self._page[end][0].topic == self._topic:
            end += 1
        taken = [ScannedRecord(self._kind, key, outcome) for key, outcome in self._page[self._position : end]]
        self._position = end
        return taken

    async def advance(self) -> None:
        """Set `head`, and fetch the next page first if this one is used up."""
        while self._position >= len(self._page):
            page = await self._coming
            if page is None:
                self.head = None
                return
            self._page, self._position = page, 0
            self._coming = asyncio.create_task(self._next())
        topic = self._page[self._position][0].topic
        if topic != self._topic:
            self._topic, self.head = topic, self._sort_key(topic)

    async def close(self) -> None:
        """Cancel the fetch of the next page, and close the listing."""
        self._coming.cancel()
        await asyncio.gather(self._coming, return_exceptions=True)
        if isinstance(self._pages, AsyncGenerator):
            await self._pages.aclose()

    async def _next(self) -> Sequence[tuple[RecordKey, Outcome[R]]] | None:
        return await anext(self._pages, None)
