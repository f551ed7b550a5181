"""Reading a range of a store as Arrow batches, inside of one task.

A task has one event loop, in a thread of its own: it goes on while Spark is busy with a batch, however long that is.
The next page is asked for before a batch is handed over, so that it is on its way meanwhile.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import Any, Final

import pyarrow as pa

from hedwig.versions import Versioned
from metadata import KeyRange, MetadataStore, RecordKey, ScannedRecord, open_metadata
from metadata.url import MetadataUrl
from pipeline.collector import few_collections
from pipeline.hand_over import handed_over
from pipeline.plan import ScanConfig
from pipeline.schemas import batch_of
from pipeline.tables import OnCorrupt

__all__ = ["scan", "scan_batches"]

_log = logging.getLogger(__name__)

_NAMED_MAX: Final = 20
"""So many records that cannot be read are named by each task; all are counted."""


def scan(config: ScanConfig, keys: KeyRange) -> Generator[pa.RecordBatch, None, None]:
    """Iterate over the rows in a range, in the backend's key order, as batches of the table's schema.

    Nothing of this is one moment in time: a record that is there from start to end is met once, as it was meanwhile.

    Raises: CorruptRecordError - a record cannot be read, and none is to be passed over; MetadataUnavailableError - the
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
    backend = MetadataUrl.parse(config.url).scheme
    found: list[tuple[RecordKey, Versioned[Any]]] = []
    skipped = 0
    # A prefix is the store's affair.
    filters = not config.names.is_prefix
    async with aclosing(_ahead(store.scan_range(keys))) as pages:
        async for page in pages:
            for item in page:
                if filters and not config.names.wants(item.key.topic):
                    continue
                record = item.outcome.record
                if record is not None:
                    found.append((item.key, record))
                elif config.on_corrupt is OnCorrupt.SKIP:
                    skipped += 1
                    if skipped <= _NAMED_MAX:
                        _log.warning("passed over a record that cannot be read: %s", item.error)
                else:
                    item.read()
            while len(found) >= config.batch_rows:
                yield batch_of(config.table, backend, found[: config.batch_rows], config.columns)
                del found[: config.batch_rows]
    if found:
        yield batch_of(config.table, backend, found, config.columns)
    if skipped:
        _log.warning("passed over %d records of %s that cannot be read", skipped, config.table)


async def _ahead(
    pages: AsyncGenerator[list[ScannedRecord], None],
) -> AsyncGenerator[list[ScannedRecord], None]:
    """Iterate over pages, with the next one asked for while the present one is worked on."""
    coming = asyncio.create_task(_page(pages))
    try:
        while (page := await coming) is not None:
            coming = asyncio.create_task(_page(pages))
            # Let it get as far as the store; from there on it needs nobody's turn until the answer is there.
            await asyncio.sleep(0)
            yield page
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await pages.aclose()


async def _page(pages: AsyncGenerator[list[ScannedRecord], None]) -> list[ScannedRecord] | None:
    return await anext(pages, None)
