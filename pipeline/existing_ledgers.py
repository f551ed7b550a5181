"""The ledgers that exist, asked of where they are, to be held against those on record."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.errors import ConfigurationError, LedgerStoreUnavailableError
from hedwig.exit_codes import ExitCode
from hedwig.outcomes import NotAppliedError
from hub.ledgers.census import LedgerEntry
from metadata.url import zookeeper_place
from pipeline.columns import UINT64
from pipeline.errors import JobError

__all__ = ["LedgerPlace", "ledgers_frame"]

_TIMEOUT_S: Final = 30.0
_LEDGERS: Final = "ledgers"
_APPLICATION: Final = b"hedwig"


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
    def can_tell_orphans(self) -> bool:
        """Say whether a ledger that no topic refers to is known to be nobody else's."""
        return self.directory is not None or self.deployment is not None

    def read(self) -> pa.Table:
        """Return all ledgers: ledger_id (text), made_ms (null if nothing says so), is_ours, topic (null if not told).

        Raises: ConfigurationError - there are none; JobError - they cannot be asked for.
        """
        try:
            return asyncio.run(self._read())
        except (NotAppliedError, LedgerStoreUnavailableError) as exc:
            where = self.directory or self.bookkeeper
            raise JobError(f"the ledgers at {where} cannot be listed: {exc}", ExitCode.UNAVAILABLE) from exc

    async def _read(self) -> pa.Table:
        ids, made, ours, topics = [], [], [], []
        async with aclosing(self._pages()) as pages:
            async for page in pages:
                for entry in page:
                    ids.append(str(entry.ledger_id))
                    made.append(entry.made_ms)
                    ours.append(self._is_ours(entry))
                    topics.append(entry.about.get("topic") if self.directory is None else None)
        columns = [pa.array(ids, pa.string()), pa.array(made, pa.int64()), pa.array(ours, pa.bool_())]
        return pa.table([*columns, pa.array(topics, pa.binary())], names=["ledger_id", "made_ms", "is_ours", "topic"])

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


def ledgers_frame(spark: SparkSession, listed: pa.Table) -> DataFrame:
    """Return what was listed as a frame: ledger_id (decimal(20,0)), made_ms, is_ours, topic (binary)."""
    frame = spark.createDataFrame(listed)
    return frame.withColumn("ledger_id", F.col("ledger_id").cast(UINT64))
