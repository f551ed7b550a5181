"""Which part of a store is read, and how it is shared out among tasks."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from hedwig.errors import ConfigurationError, InvalidArgumentError, NoMetadataError
from hedwig.metadata import KeyRange, StoreOptions, open_metadata, read_layout
from hedwig.model import Topic
from hedwig.pipeline.frames.tables import ROWS_PER_PARTITION, TIMEOUT_S, OnCorrupt, Table
from hedwig.pipeline.source.shared_stores import check_shared, stores_file

__all__ = ["PARTITIONS_MAX", "NameRange", "ScanConfig", "plan"]

PARTITIONS_MAX: Final = 10_000
"""More tasks than this would only wait for their turn. Larger stores get larger partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRange:
    """Topics by their names: those that begin with `prefix`, from `start` on, before `stop` (None: to the end).

    The order is that of bytes on every backend. HBase keeps its topics in another order, and ZooKeeper lists all of
    them. There a reader scans all topics that begin with `common`, and filters them.
    """

    prefix: bytes = b""
    start: bytes = b""
    stop: bytes | None = None

    def wants(self, topic: Topic) -> bool:
        """Say whether a topic is in the range."""
        return topic >= self.start and (self.stop is None or topic < self.stop) and topic.startswith(self.prefix)

    @property
    def is_prefix(self) -> bool:
        """Say whether every topic that begins with `common` is in the range."""
        return not self.start and self.stop is None

    @property
    def common(self) -> bytes:
        """Return what all names in the range begin with."""
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(self.start, self.stop or b"", strict=False))
        return max(self.prefix, bytes(byte for byte, _ in shared), key=len)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanConfig:
    """What to read and how.

    url: the store. table: which of its tables. columns: which columns of that, in which order; None for all. names:
    which topics. rows_per_partition: about how many rows a task reads, as far as the store can tell without reading
    them all. fetch_rows: how many rows to request from the store at a time. batch_rows: how many rows an Arrow batch
    has at most. on_corrupt: what to do about records that cannot be read. operation_timeout_s: how long the store may
    take for one request.
    """

    url: str
    table: Table
    columns: tuple[str, ...] | None = None
    names: NameRange = NameRange()
    rows_per_partition: int = ROWS_PER_PARTITION
    fetch_rows: int = 8_192
    batch_rows: int = 8_192
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    operation_timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        check_shared(self.url)
        if min(self.rows_per_partition, self.fetch_rows, self.batch_rows) < 1 or self.operation_timeout_s <= 0:
            raise InvalidArgumentError("sizes of partitions, fetches and batches, and timeouts, are positive")

    @property
    def store_options(self) -> StoreOptions:
        """Return how to open the store."""
        # A task that made a missing store would read nothing from it, without an error.
        return StoreOptions(
            page_rows=self.fetch_rows,
            operation_timeout_s=self.operation_timeout_s,
            stores_file=stores_file(),
            makes=False,
        )


def plan(config: ScanConfig) -> list[KeyRange]:
    """Return the ranges that tasks read, at least one.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError, TooManyNamesError - as `open_metadata` and
        `MetadataStore.key_ranges`.
    """
    return asyncio.run(_plan(config))


async def _plan(config: ScanConfig) -> list[KeyRange]:
    # SQLite would make an empty store at a mistyped path.
    if await read_layout(config.url, config.store_options) is None:
        with suppress(NoMetadataError, ConfigurationError):
            # A store of an older release has no layout either. Opening it raises an error that says what to do.
            async with await open_metadata(config.url, config.store_options):
                pass
        raise NoMetadataError(
            f"there is no metadata store at {config.url}; correct the URL, or make one with: "
            f"hedwig-admin metadata format --metadata '{config.url}'"
        )
    async with await open_metadata(config.url, config.store_options) as store:
        return await store.key_ranges(
            config.table.kind, PARTITIONS_MAX, config.names.common, rows_min=config.rows_per_partition
        )
