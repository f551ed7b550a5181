"""The ledgers that exist, asked of where they are, to be held against those on record.

There may be many millions of them, so that they go into a file page by page, and are read from there.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError
from hedwig.exit_codes import ExitCode
from hedwig.outcomes import NotAppliedError
from hub.ledgers.census import LedgerEntry
from metadata.url import zookeeper_place
from pipeline.errors import JobError

__all__ = ["LedgerListing", "LedgerPlace"]

_TIMEOUT_S: Final = 30.0
_LEDGERS: Final = "ledgers"
_APPLICATION: Final = b"hedwig"
_SCHEMA: Final = pa.schema(
    [("ledger_id", pa.uint64()), ("made_ms", pa.int64()), ("is_ours", pa.bool_()), ("topic", pa.binary())]
)
_ROWS_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerListing:
    """All ledgers that there were at some time: how many, how many of them are of this deployment, and each.

    Columns: ledger_id (decimal(20,0)); made_ms (bigint, ms since 1970, null if nothing says so); is_ours (boolean);
    topic (binary, null if its maker did not say).
    """

    ledgers: int
    ours: int
    frame: DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where ledgers are: the data `directory` of a standalone hub, or the bookies at `bookkeeper`, a ZooKeeper URL.

    `deployment` is the hubs' option cluster.zookeeper, to the letter: by it their ledgers are told from others' on the
    same bookies. Without it nobody can say which of those belong to nobody.
    """

    directory: str | None = None
    bookkeeper: str | None = None
    deployment: str | None = None

    @property
    def is_dated(self) -> bool:
        """Say whether ledgers there tell when they were made."""
        return self.directory is None

    def why_no_orphans(self, listing: LedgerListing, *, is_from_store: bool) -> str | None:
        """Say why a ledger to which no topic refers may be somebody's all the same; None if it is an orphan.

        Args: is_from_store - the records were read just now, after a listing of their ledgers.
        """
        if not self.is_dated:
            if is_from_store:
                return None
            return (
                "ledgers of a standalone hub do not tell when they were made, and those that were made since are not "
                "in a snapshot; give the URL of the store"
            )
        if self.deployment is None:
            return "others may have ledgers there; give --cluster URL as the hubs have it"
        if not listing.ours:
            return (
                f"none of the {listing.ledgers:,} ledgers there was made by hubs of {self.deployment}; give --cluster "
                "to the letter as the hubs have it in cluster.zookeeper"
            )
        return None

    def list_into(self, spark: SparkSession, path: str) -> LedgerListing:
        """Write all ledgers into a Parquet file at `path`, in any file system that Spark knows, and return them.

        Raises: ConfigurationError - there are none; JobError - they cannot be asked for.
        """
        with TemporaryDirectory(prefix="hedwig-ledgers-") as folder:
            file = Path(folder) / "ledgers.parquet"
            try:
                ledgers, ours = asyncio.run(self._write(file))
            except (NotAppliedError, LedgerStoreUnavailableError) as exc:
                where = self.directory or self.bookkeeper
                raise JobError(f"the ledgers at {where} cannot be listed: {exc}", ExitCode.UNAVAILABLE) from exc
            _carry(spark, file, path)
        return LedgerListing(ledgers=ledgers, ours=ours, frame=spark.read.parquet(path))

    async def _write(self, file: Path) -> tuple[int, int]:
        """Write all ledgers into a local file; return how many there are, and how many are ours."""
        ledgers = ours = 0
        rows: list[dict[str, object]] = []
        with pq.ParquetWriter(file, _SCHEMA) as writer:
            async with aclosing(self._pages()) as pages:
                async for page in pages:
                    rows += map(self._row, page)
                    if len(rows) >= _ROWS_AT_ONCE:
                        writer.write_table(pa.Table.from_pylist(rows, _SCHEMA))
                        rows.clear()
                    ledgers += len(page)
                    ours += sum(map(self._is_ours, page))
            writer.write_table(pa.Table.from_pylist(rows, _SCHEMA))
        return ledgers, ours

    def _row(self, entry: LedgerEntry) -> dict[str, object]:
        return {
            "ledger_id": entry.ledger_id,
            "made_ms": entry.made_ms,
            "is_ours": self._is_ours(entry),
            "topic": entry.about.get("topic") if self.directory is None else None,
        }

    def _is_ours(self, entry: LedgerEntry) -> bool:
        if self.directory is not None:
            return True
        about = entry.about
        return (
            self.deployment is not None
            and about.get("application") == _APPLICATION
            and about.get("deployment", b"") == self.deployment.encode()
        )

    async def _pages(self) -> AsyncGenerator[list[LedgerEntry], None]:
        if self.directory is not None:
            from hub.ledgers.local.census import LocalLedgerCensus

            path = Path(self.directory) / _LEDGERS
            if not path.is_dir():
                raise ConfigurationError(
                    f"there are no ledgers in {self.directory}; name the data directory of the hub"
                )
            local = await LocalLedgerCensus.open(path)
            async for page in local.pages():
                yield page
            return
        assert self.bookkeeper is not None, "one of the two was given"
        hosts, root = zookeeper_place(self.bookkeeper)
        try:
            from hedwig.clock import SystemClock
            from hedwig.zookeeper import Bridge, BridgeOptions
            from hub.ledgers.bookkeeper.bridged_session import BridgedSession
            from hub.ledgers.bookkeeper.census import BookkeeperLedgerCensus
            from hub.ledgers.bookkeeper.zookeeper_metadata import ZookeeperLedgerMetadata
        except ImportError as exc:
            raise ConfigurationError(
                f"ledgers on bookies are found with {exc.name}; in the checkout of hedwig: pip install "
                "'.[zookeeper,bookkeeper]'"
            ) from exc
        bridge = Bridge(hosts, BridgeOptions(connect_timeout_s=_TIMEOUT_S))
        try:
            await bridge.connect()
            metadata = await ZookeeperLedgerMetadata.open(BridgedSession(bridge), root, SystemClock(), _TIMEOUT_S)
            async for page in BookkeeperLedgerCensus(metadata).pages():
                yield page
        finally:
            await bridge.close()


def _carry(spark: SparkSession, file: Path, path: str) -> None:
    """Copy a local file to where the tasks can read it."""
    jvm, java = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None, "the session is open"
    assert java is not None, "the session is open"
    target = jvm.org.apache.hadoop.fs.Path(path)
    source = jvm.org.apache.hadoop.fs.Path(file.as_uri())
    target.getFileSystem(java.hadoopConfiguration()).copyFromLocalFile(True, False, source, target)
