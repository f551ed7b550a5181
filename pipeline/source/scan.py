"""Reading a range of a store as Arrow batches, inside one task.

A task has one event loop, in a separate thread. The loop runs on while Spark works on a batch, however long that takes.
The task requests the next page before it hands a batch over, so the page is on its way meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any, Final, TypeVar

import pyarrow as pa

from hedwig.metadata import KeyRange, MetadataStore, RecordKey, ScannedRecord, open_metadata
from hedwig.metadata.contract.packed import PackedColumns, PackedPage
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.model import HubInfo, Topic
from hedwig.pipeline.collector import few_collections
from hedwig.pipeline.frames.packed_batch import UnusualError, packed_batch
from hedwig.pipeline.frames.schemas import UNREADABLE, batch_of
from hedwig.pipeline.frames.tables import OnCorrupt
from hedwig.pipeline.frames.unreadable import unreadable_batch
from hedwig.pipeline.source.hand_over import handed_over
from hedwig.pipeline.source.plan import ScanConfig
from hedwig.versions import Versioned

__all__ = ["scan", "scan_batches"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_NAMED_MAX: Final = 20
"""Each task names at most this many unreadable records in its log, and counts all of them."""
_TURNS: Final = 2


def scan(config: ScanConfig, keys: KeyRange) -> Generator[pa.RecordBatch, None, None]:
    """Iterate over the rows in a range, in the backend's key order, as batches of the table's schema.

    The rows are not from one moment. A record that exists from start to end appears once, as it was at some moment in
    between.

    Raises: CorruptRecordError - a record cannot be read, and `on_corrupt` is FAIL; MetadataUnavailableError - the
        store stopped answering; as `plan`.
    """
    with few_collections(), closing(handed_over(_opened(config, keys))) as batches:
        yield from batches


async def _opened(config: ScanConfig, keys: KeyRange) -> AsyncGenerator[pa.RecordBatch, None]:
    async with (
        await open_metadata(config.url, config.store_options) as store,
        aclosing(scan_batches(store, config, keys)) as batches,
    ):
        async for batch in batches:
            yield batch


async def scan_batches(
    store: MetadataStore, config: ScanConfig, keys: KeyRange
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Iterate over the rows in a range of an open store, as `scan`."""
    rows = _Rows(config)
    packed = store.packed_range(keys)
    if packed is not None:
        async with aclosing(_ahead(packed)) as packed_pages:
            async for packed_page in packed_pages:
                for batch in rows.of_packed(packed_page):
                    yield batch
    else:
        async with aclosing(_ahead(store.scan_range(keys))) as pages:
            async for page in pages:
                for batch in rows.of_records(page):
                    yield batch
    for batch in rows.rest():
        yield batch
    if rows.skipped and not rows.names_broken:
        _log.warning("passed over %d records of %s that cannot be read", rows.skipped, config.table)


class _Rows:
    """Makes batches of at most `batch_rows` rows from pages, in the order of the pages."""

    def __init__(self, config: ScanConfig) -> None:
        self.skipped = 0
        self._config = config
        self._backend = MetadataUrl.parse(config.url).scheme
        # The store itself selects a prefix.
        self._filters = not config.names.is_prefix
        self._records: list[tuple[RecordKey, Versioned[Any]]] = []
        self.names_broken = UNREADABLE.name in (config.columns or ())
        self._broken: list[tuple[RecordKey, str]] = []

    def of_packed(self, page: PackedPage) -> Iterator[pa.RecordBatch]:
        """Return the batches of a page of records as they are stored."""
        try:
            batch = None if page.columns is None else self._packed(page.columns)
        except UnusualError:
            batch = None
        if batch is None:
            yield from self.of_records(page.records())
            return
        yield from self.rest()
        for start in range(0, batch.num_rows, self._config.batch_rows):
            yield batch.slice(start, self._config.batch_rows)

    def of_records(self, page: Sequence[ScannedRecord]) -> Iterator[pa.RecordBatch]:
        """Take the records of a page; return the batches that are full by now."""
        for item in page:
            if self._filters and not self._config.names.wants(item.key.topic):
                continue
            record = item.outcome.record
            if record is not None:
                # ZooKeeper removes a fleeting owner with its hub's session. So it is never stale, and no job writes it.
                if not (isinstance(record.value, HubInfo) and record.value.is_fleeting):
                    self._records.append((item.key, record))
            elif self._config.on_corrupt is OnCorrupt.SKIP:
                self.skipped += 1
                if self.names_broken:
                    self._broken.append((item.key, str(item.error)))
                elif self.skipped <= _NAMED_MAX:
                    _log.warning("passed over a record that cannot be read: %s", item.error)
            else:
                item.read()
        while len(self._records) >= self._config.batch_rows:
            yield self._batch(self._config.batch_rows)
        while len(self._broken) >= self._config.batch_rows:
            yield self._broken_batch(self._config.batch_rows)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the records that have not filled a batch."""
        if self._records:
            yield self._batch(len(self._records))
        if self._broken:
            yield self._broken_batch(len(self._broken))

    def _packed(self, columns: PackedColumns) -> pa.RecordBatch:
        batch = packed_batch(self._config.table, self._backend, columns, self._config.columns)
        if not self._filters:
            return batch
        topics: Sequence[Any] = columns.topics
        if isinstance(topics, pa.Array):
            topics = topics.to_pylist()
        return batch.filter(pa.array([self._config.names.wants(Topic(topic)) for topic in topics], pa.bool_()))

    def _batch(self, rows: int) -> pa.RecordBatch:
        batch = batch_of(self._config.table, self._backend, self._records[:rows], self._config.columns)
        del self._records[:rows]
        return batch

    def _broken_batch(self, rows: int) -> pa.RecordBatch:
        assert self._config.columns is not None, "one of them was asked for by its name"
        batch = unreadable_batch(self._config.table, self._backend, self._broken[:rows], self._config.columns)
        del self._broken[:rows]
        return batch


async def _ahead(pages: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Iterate over pages, and request the next one while the caller works on this one."""
    coming = asyncio.create_task(_page(pages))
    try:
        while (page := await coming) is not None:
            coming = asyncio.create_task(_page(pages))
            # Give the request the turns of the loop that it needs to leave: a request made in one turn leaves in the
            # next. Then it needs no more turns until the answer arrives.
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            yield page
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await pages.aclose()


async def _page(pages: AsyncGenerator[T, None]) -> T | None:
    return await anext(pages, None)
