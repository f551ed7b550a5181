"""SQLite stores for tests of the pipeline, filled and read through the metadata layer."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from hedwig.metadata import KeyRange, MetadataStore, MetadataUrl, RecordKey, StoreOptions, open_metadata
from hedwig.metadata.contract.table import VersionedTable
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.plan import ScanConfig, plan
from hedwig.pipeline.source.scan import scan
from hedwig.versions import Versioned

__all__ = ["break_one", "check_pauses", "new_store", "records", "rows_of_table", "scanned", "table_of", "with_store"]

T = TypeVar("T")


def new_store(folder: Path, name: str = "store") -> str:
    """Return the URL of an empty store that was laid out in `folder`."""
    url = f"sqlite://{folder / name}.db"

    async def nothing(_: MetadataStore) -> None:
        """Do nothing: opening the store lays it out."""

    with_store(url, nothing)
    return url


def with_store(url: str, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
    """Return what `work` returns, given the open store."""

    async def run() -> T:
        async with await open_metadata(url, StoreOptions()) as store:
            return await work(store)

    return asyncio.run(run())


def records(url: str, table: Table) -> Mapping[RecordKey, Versioned[Any]]:
    """Return the records of the store, read past the pipeline."""

    async def read(store: MetadataStore) -> dict[RecordKey, Versioned[Any]]:
        return {item.key: item.read() async for page in store.scan(kinds=(table.kind,)) for item in page}

    return with_store(url, read)


def table_of(store: MetadataStore, table: Table) -> VersionedTable[Any]:
    """Return the table of the store that keeps the records of `table`."""
    return store._backend.table(table.kind)


def scanned(config: ScanConfig) -> list[tuple[KeyRange, list[pa.RecordBatch]]]:
    """Return the batches of each range of a plan."""
    return [(keys, list(scan(config, keys))) for keys in plan(config)]


def rows_of_table(url: str, table: Table, **how: Any) -> pa.Table:
    """Return all rows of a table, as the pipeline reads them."""
    config = ScanConfig(url=url, table=table, **how)
    batches = [batch for _, share in scanned(config) for batch in share]
    return pa.Table.from_batches(batches, batches[0].schema if batches else pa.schema([]))


def break_one(url: str, table: Table, key: RecordKey) -> None:
    """Make a record in a SQLite file unreadable."""
    part = "state" if table is Table.SUBSCRIPTIONS else "record"
    with closing(sqlite3.connect(MetadataUrl.parse(url).path)) as connection, connection:
        done = connection.execute(
            f"UPDATE {table.kind.name} SET {part} = ? WHERE topic = ?", (b"\xc1no record", key.topic)
        )
        assert done.rowcount > 0


def check_pauses(url: str, pauses: int, timeout_s: float = 1.0) -> None:
    """Read subscriptions, and pause after each of the first batches for longer than a request may take."""
    config = ScanConfig(url=url, table=Table.SUBSCRIPTIONS, fetch_rows=5, batch_rows=5, operation_timeout_s=timeout_s)
    rows = 0
    for keys in plan(config):
        with closing(scan(config, keys)) as batches:
            for number, batch in enumerate(batches):
                rows += batch.num_rows
                if number < pauses:
                    time.sleep(1.2 * timeout_s)  # Spark does the same.
    assert rows == len(records(url, Table.SUBSCRIPTIONS))
