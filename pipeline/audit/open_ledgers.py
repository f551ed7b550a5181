"""The last entries of open ledgers, asked of the ledger store: the records give only the start of an open ledger.

Tasks ask bookies, so that a cluster asks with all of its machines. The driver reads a data directory, which is on its
own machine. If one ledger gives no answer, the others are asked all the same.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hedwig.errors import CorruptEntryError, HedwigError, LedgerStoreUnavailableError, NoSuchLedgerError
from hedwig.exit_codes import ExitCode
from hedwig.hub.ledgers.inspection import LedgerInspector
from hedwig.operations.deployment.ledgers import LedgerLocation
from hedwig.outcomes import NotAppliedError
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.columns import is_virtual
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.spark_types import spark_field

__all__ = ["ask_open_ledgers", "open_ledgers"]

_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.binary(), nullable=False),
        pa.field("ledger_id", pa.decimal128(20, 0), nullable=False),
        pa.field("last_entry_id", pa.int64()),
        pa.field("is_closed", pa.bool_(), nullable=False),
        pa.field("why", pa.string()),
    ]
)
_AT_ONCE: Final = 64
"""How many ledgers each task asks for at the same time."""
_FAILURES_MAX: Final = 64
"""After this many failures in a row a task asks no more: each may have taken its whole timeout."""
_ROWS_AT_ONCE: Final = 10_000


def open_ledgers(ledgers: DataFrame) -> DataFrame:
    """Return the ledgers that are open according to the records: topic (binary), ledger_id (decimal(20,0)).

    Only the last ledger of a topic counts, and only if its first message is on record.
    """
    last = F.try_element_at("ranges", F.lit(-1))
    is_open = (F.size("ranges") > 0) & last["end"].isNull() & last["start"].isNotNull()
    return ledgers.where(is_open).select("topic", last["ledger_id"].alias("ledger_id"))


def ask_open_ledgers(spark: SparkSession, ledgers: DataFrame, location: LedgerLocation, path: str) -> DataFrame:
    """Ask for the last entries of the open ledgers in `ledgers`, write the answers into the folder `path`; return them.

    Columns: topic, ledger_id; last_entry_id (bigint): the last entry that can be seen, -1 for none, null if not known;
    is_closed (boolean): the ledger has been closed since, so it has no later entry; why (string): the reason why the
    last entry is not known.

    Raises: ConfigurationError - there are no ledgers, or an extra is missing; JobError - no ledger can be asked for.
    """
    wanted, schema = open_ledgers(ledgers), StructType([spark_field(field) for field in _SCHEMA])
    if location.metadata is None:
        # Only the store has the records of shared logs, which say where the entries of these ledgers are.
        wanted = wanted.where(~is_virtual(F.col("ledger_id")))
    if location.is_shared:
        wanted.mapInArrow(partial(_answers_of_bookies, location), schema).write.parquet(path)
    else:
        with TemporaryDirectory(prefix="hedwig-ledgers-") as folder:
            file = Path(folder) / "ledgers.parquet"
            with pq.ParquetWriter(file, _SCHEMA) as writer:
                for batch in _answers_of_directory(location, _collected(wanted)):
                    writer.write_batch(batch)
            (Folder(spark, path) / "ledgers.parquet").put(file)
    return spark.read.schema(schema).parquet(path)


def _collected(wanted: DataFrame) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of a frame in the driver, a partition at a time."""
    schema = pa.schema([_SCHEMA.field("topic"), _SCHEMA.field("ledger_id")])
    rows = wanted.toLocalIterator()
    while some := [row.asDict() for row in islice(rows, _ROWS_AT_ONCE)]:
        yield pa.RecordBatch.from_pylist(some, schema)


def _answers_of_directory(location: LedgerLocation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterate over the answers for the ledgers in `batches`, in their order."""
    with asyncio.Runner() as runner, _as_job_error(location):
        inspector = runner.run(location.local_inspector())
        for batch in batches:
            topics, ids = _names_of(batch)
            extents = runner.run(inspector.extents(ids))
            yield _batch(topics, ids, [_gone() if each is None else _known(*each) for each in extents])


def _answers_of_bookies(location: LedgerLocation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterate over the answers for the ledgers in `batches`, in their order."""
    asking: _Asking | None = None
    # No request is in flight between two batches, so the loop may stand still while the consumer works on one.
    with asyncio.Runner() as runner, _as_job_error(location):
        stack = AsyncExitStack()
        try:
            for batch in batches:
                topics, ids = _names_of(batch)
                if asking is None:
                    # Connect only now: most tasks may have nothing to ask for.
                    asking = _Asking(runner.run(stack.enter_async_context(location.inspector())))
                yield _batch(topics, ids, runner.run(asking.answers(ids)))
        finally:
            runner.run(stack.aclose())


class _Asking:
    """Asks for many ledgers at once, and stops asking after `_FAILURES_MAX` failures in a row."""

    def __init__(self, inspector: LedgerInspector) -> None:
        self._inspector = inspector
        self._failed_in_a_row = 0

    async def answers(self, ids: Sequence[int]) -> list[dict[str, Any]]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(ledger_id: int) -> dict[str, Any]:
            async with limit:
                return await self._answer(ledger_id)

        return list(await asyncio.gather(*map(one, ids)))

    async def _answer(self, ledger_id: int) -> dict[str, Any]:
        if self._failed_in_a_row >= _FAILURES_MAX:
            return _unknown(f"it was not asked for, since {_FAILURES_MAX} others in a row gave no answer")
        try:
            facts = await self._inspector.facts(ledger_id)
        except NoSuchLedgerError:
            return _gone()
        except HedwigError as exc:
            self._failed_in_a_row += 1
            return _unknown(str(exc))
        self._failed_in_a_row = 0
        return _known(facts.is_closed, facts.last_entry_id)


@contextmanager
def _as_job_error(location: LedgerLocation) -> Iterator[None]:
    """Turn an error that concerns all ledgers into a JobError, which ends the job with one line, also out of a task."""
    try:
        yield
    except (NotAppliedError, LedgerStoreUnavailableError, CorruptEntryError, OSError) as exc:
        raise JobError(f"the ledgers at {location} cannot be asked for: {exc}", ExitCode.UNAVAILABLE) from exc


def _names_of(batch: pa.RecordBatch) -> tuple[list[bytes], list[int]]:
    return batch.column("topic").to_pylist(), [int(number) for number in batch.column("ledger_id").to_pylist()]


def _batch(topics: Sequence[bytes], ids: Sequence[int], answers: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    rows = zip(topics, ids, answers, strict=True)
    return pa.RecordBatch.from_pylist(
        [{"topic": topic, "ledger_id": ledger_id, **answer} for topic, ledger_id, answer in rows], _SCHEMA
    )


def _known(is_closed: bool, last_entry_id: int) -> dict[str, Any]:
    return {"last_entry_id": last_entry_id, "is_closed": is_closed, "why": None}


def _gone() -> dict[str, Any]:
    return _unknown("it does not exist")


def _unknown(why: str) -> dict[str, Any]:
    return {"last_entry_id": None, "is_closed": False, "why": why}
