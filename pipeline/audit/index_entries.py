"""Subscriptions that the index of subscribers lacks: tasks look each subscription of a snapshot up in the store."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from hedwig.metadata import IndexState, MetadataStore, RecordKey, StoreOptions, open_metadata
from hedwig.metadata.bulk.subscriber_index import unindexed
from hedwig.model import SubscriberId, Topic
from hedwig.pipeline.source.shared_stores import stores_file

__all__ = ["index_state_of", "unindexed_subscriptions"]

_COLUMNS: Final = "topic binary, subscriber binary"
_SCHEMA: Final = pa.schema([("topic", pa.binary()), ("subscriber", pa.binary())])


def index_state_of(url: str, timeout_s: float) -> IndexState | None:
    """Return what is known of the index of a store; None if it has none to keep. Raises: as `open_metadata`."""

    async def look() -> IndexState | None:
        async with await open_metadata(url, _options(timeout_s)) as store:
            return store.index_state

    return asyncio.run(look())


def unindexed_subscriptions(subscriptions: DataFrame, url: str, timeout_s: float) -> DataFrame:
    """Return those of the subscriptions that still exist in the store at `url`, and that its index lacks.

    Columns: topic, subscriber (binary). A task raises MetadataUnavailableError if the store does not answer.
    """
    return subscriptions.select("topic", "subscriber").mapInArrow(partial(_unindexed, url, timeout_s), _COLUMNS)


def _unindexed(url: str, timeout_s: float, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    store: MetadataStore | None = None
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            for batch in batches:
                if store is None:
                    store = runner.run(_opened(stack, url, timeout_s))
                names = zip(batch.column("topic").to_pylist(), batch.column("subscriber").to_pylist(), strict=True)
                keys = [RecordKey(Topic(topic), SubscriberId(subscriber)) for topic, subscriber in names]
                lacking = runner.run(unindexed(store, keys))
                rows = [{"topic": key.topic, "subscriber": key.subscriber} for key in lacking]
                yield pa.RecordBatch.from_pylist(rows, _SCHEMA)
        finally:
            runner.run(stack.aclose())


async def _opened(stack: AsyncExitStack, url: str, timeout_s: float) -> MetadataStore:
    return await stack.enter_async_context(await open_metadata(url, _options(timeout_s)))


def _options(timeout_s: float) -> StoreOptions:
    return StoreOptions(operation_timeout_s=timeout_s, stores_file=stores_file(), makes=False)
