"""The ledgers that exist, listed from the store that holds them, for comparison with those on record.

There may be many millions of them. So the pages of the listing go into a file, and Spark reads that.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from hedwig.errors import LedgerStoreUnavailableError
from hedwig.exit_codes import ExitCode
from hedwig.hub.ledgers.census import LedgerEntry
from hedwig.operations.deployment.ledgers import LedgerLocation, LedgerOwner
from hedwig.outcomes import NotAppliedError
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.folder import Folder

__all__ = ["LedgerListing", "check_ledgers", "list_ledgers", "why_no_orphans"]

_SCHEMA: Final = pa.schema(
    [("ledger_id", pa.uint64()), ("made_ms", pa.int64()), ("is_ours", pa.bool_()), ("topic", pa.binary())]
)
_ROWS_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerListing:
    """All ledgers at some time: how many, how many of them are of this deployment, and a row for each.

    Columns: ledger_id (decimal(20,0)); made_ms (bigint, ms since 1970, null if not known); is_ours (boolean); topic
    (binary, null if its maker did not record it).
    """

    ledgers: int
    ours: int
    frame: DataFrame


def check_ledgers(location: LedgerLocation) -> None:
    """Open the list of ledgers, and close it again, so that a mistyped location is refused before the work.

    Raises: as `list_ledgers`.
    """

    async def look() -> None:
        async with location.census():
            return

    with _as_job_error(location):
        asyncio.run(look())


def list_ledgers(spark: SparkSession, location: LedgerLocation, owner: LedgerOwner, path: str) -> LedgerListing:
    """Write all ledgers into a Parquet file at `path`, in any file system that Spark knows, and return them.

    Raises: ConfigurationError - there are no ledgers at `location`; JobError - they cannot be listed.
    """
    with TemporaryDirectory(prefix="hedwig-ledgers-") as folder:
        file = Path(folder) / "ledgers.parquet"
        with _as_job_error(location):
            ledgers, ours = asyncio.run(_write(location, owner, file))
        Folder(spark, path).put(file)
    return LedgerListing(ledgers=ledgers, ours=ours, frame=spark.read.parquet(path))


def why_no_orphans(
    location: LedgerLocation, owner: LedgerOwner, listing: LedgerListing, *, is_from_store: bool
) -> str | None:
    """Return why a ledger to which no topic refers may still be in use; None if it is an orphan.

    Args: is_from_store - the records were read just now, after a listing of their ledgers.
    """
    if not location.is_shared:
        if is_from_store:
            return None
        return (
            "a standalone hub does not record when it makes a ledger, and ledgers that it made since are not "
            "in a snapshot. Give the URL of the store"
        )
    if owner.cluster is None:
        return "others may have ledgers there; give --cluster URL as the hubs have it"
    if not listing.ours:
        return (
            f"none of the {listing.ledgers:,} ledgers there was made by hubs of {owner.cluster}; give --cluster "
            "to the letter as the hubs have it in cluster.zookeeper"
        )
    return None


@contextmanager
def _as_job_error(location: LedgerLocation) -> Iterator[None]:
    try:
        yield
    except (NotAppliedError, LedgerStoreUnavailableError) as exc:
        raise JobError(f"the ledgers at {location} cannot be listed: {exc}", ExitCode.UNAVAILABLE) from exc


async def _write(location: LedgerLocation, owner: LedgerOwner, file: Path) -> tuple[int, int]:
    """Write all ledgers into a local file; return how many there are, and how many are ours."""
    ledgers = ours = 0
    rows: list[dict[str, object]] = []
    with pq.ParquetWriter(file, _SCHEMA) as writer:
        async with location.census() as census:
            async for page in census.pages():
                rows += [_row(location, owner, entry) for entry in page]
                if len(rows) >= _ROWS_AT_ONCE:
                    writer.write_table(pa.Table.from_pylist(rows, _SCHEMA))
                    rows.clear()
                ledgers += len(page)
                ours += sum(_is_ours(location, owner, entry) for entry in page)
        writer.write_table(pa.Table.from_pylist(rows, _SCHEMA))
    return ledgers, ours


def _row(location: LedgerLocation, owner: LedgerOwner, entry: LedgerEntry) -> dict[str, object]:
    return {
        "ledger_id": entry.ledger_id,
        "made_ms": entry.made_ms,
        "is_ours": _is_ours(location, owner, entry),
        "topic": entry.about.get("topic") if location.is_shared else None,
    }


def _is_ours(location: LedgerLocation, owner: LedgerOwner, entry: LedgerEntry) -> bool:
    """Say whether hubs of the deployment made a ledger. In a data directory its hub made all."""
    return not location.is_shared or owner.why_not_ours(entry) is None
