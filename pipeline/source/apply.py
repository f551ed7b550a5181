"""Writing Arrow batches to a store, inside one task.

Rows go to the store in batches, by `load_batches`, with a fixed number of batches under way. So memory is bounded,
however many rows there are. A task may end anywhere and run again from its first row: rows that it has written before
then count as the same.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError, HedwigError, InvalidArgumentError, MetadataUnavailableError
from hedwig.metadata import MetadataStore, Operation, Outcome, StoreOptions, Write, open_metadata
from hedwig.metadata.bulk.copying import apply_to
from hedwig.metadata.bulk.loading import load_batches
from hedwig.metadata.contract.operations import Read
from hedwig.metadata.contract.url import MetadataUrl, family_of
from hedwig.metadata.migration.freeze_watch import FreezeWatch, StoreFrozenError
from hedwig.metadata.records.unknown_fields import has_unknown_fields
from hedwig.pipeline.collector import few_collections
from hedwig.pipeline.frames.input_rows import InputRow, rows_of
from hedwig.pipeline.frames.policies import Policy, WriteResult, condition, judge
from hedwig.pipeline.frames.tables import TIMEOUT_S, Table
from hedwig.pipeline.source.shared_stores import check_shared, stores_file
from hedwig.pipeline.source.statistics import PROBLEMS, Statistics
from hedwig.versions import NEW

__all__ = ["ApplyConfig", "TargetFrozenError", "apply", "apply_batches", "prepare"]

_TRIES: Final = 3
"""How often to try a write whose outcome stays unknown. Each time the store has its whole timeout."""


class TargetFrozenError(HedwigError):
    """A migration has frozen the store or moved its records. The new store may or may not have the last writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyConfig:
    """Where to write and how.

    url: the store. table: which of its tables. policy: what to do where a record exists already. batch_rows: at most N
    rows travel to the store together. connections: at most N such batches are under way at once for each task; with
    more tasks, fewer are enough. hubs_stopped: the caller has stopped all hubs of the store, which OVERWRITE demands.
    operation_timeout_s: how long the store may take for one request.
    """

    url: str
    table: Table
    policy: Policy = Policy.CREATE
    batch_rows: int = 512
    connections: int = 4
    hubs_stopped: bool = False
    operation_timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        check_shared(self.url)
        if min(self.batch_rows, self.connections) < 1 or self.operation_timeout_s <= 0:
            raise InvalidArgumentError("sizes of batches, connections and timeouts are positive")
        if self.table is Table.TOPICS and self.policy is not Policy.CREATE:
            raise ConfigurationError(
                f"rows of the table {self.table} say which topics exist, not what is in them. Only the policy "
                f"{Policy.CREATE} can write them. To {self.policy} records, write the table {Table.LEDGERS}"
            )
        if self.policy is Policy.OVERWRITE and not self.hubs_stopped:
            raise ConfigurationError(
                f"the policy {self.policy} overwrites changes of hubs, too; stop all hubs of the store and say so "
                "(hubsStopped=true), or use create or replace"
            )

    @property
    def store_options(self) -> StoreOptions:
        """Return how a task opens the store. It must not make a missing one: no hub would look for rows in there."""
        return StoreOptions(
            in_flight_max=self.batch_rows * self.connections,
            operation_timeout_s=self.operation_timeout_s,
            stores_file=stores_file(),
            makes=False,
        )


def prepare(config: ApplyConfig) -> None:
    """Check, before any task begins, that the store can be written to as `config` says; make it if that is allowed.

    Raises: ConfigurationError, LayoutError, MetadataUnavailableError - as `open_metadata`; ConfigurationError - the
        policy is OVERWRITE, and the table has records; TargetFrozenError.
    """
    asyncio.run(_prepare(config))


async def _prepare(config: ApplyConfig) -> None:
    async with await open_metadata(config.url, replace(config.store_options, makes=True)) as store:
        with _advice_on_freezes(config):
            await FreezeWatch(store.named_records, SystemClock()).check()
        if config.policy is not Policy.OVERWRITE:
            return
        async with aclosing(store.scan(kinds=(config.table.kind,))) as pages:
            async for page in pages:
                raise ConfigurationError(
                    f"the policy {config.policy} needs an empty target, and {config.url} has {page[0].key}. Wipe it "
                    "first (hedwig-admin metadata format --wipe), or take the policy replace. Or take create, which "
                    "also finishes what an overwriting job has begun"
                )


def apply(batches: Iterable[pa.RecordBatch], config: ApplyConfig) -> Statistics:
    """Write the rows of `batches`; return what became of all of them.

    Columns are found by their names; see `input_rows.rows_of`.

    Raises: TargetFrozenError; MetadataUnavailableError - the store did not do all writes, or an outcome is not known;
        InvalidArgumentError - the rows lack columns of the table, or, for REPLACE, come from a store of another kind.
        In each case the same rows may be written again.
    """
    with few_collections():
        return asyncio.run(_apply(batches, config))


async def _apply(batches: Iterable[pa.RecordBatch], config: ApplyConfig) -> Statistics:
    async with await open_metadata(config.url, config.store_options) as store:
        return await apply_batches(store, batches, config)


async def apply_batches(store: MetadataStore, batches: Iterable[pa.RecordBatch], config: ApplyConfig) -> Statistics:
    """Write the rows of `batches` to an open store, as `apply`."""
    watch = FreezeWatch(store.named_records, SystemClock())
    total = Statistics()

    async def carry_out(rows: list[InputRow]) -> Statistics:
        return await watch.carry_out(lambda: _write(store, rows, config))

    def record(_: list[InputRow], statistics: Statistics) -> None:
        total.include(statistics)

    with _advice_on_freezes(config):
        await load_batches(_portions(batches, config), carry_out, record, in_flight_max=config.connections)
    return total


async def _portions(batches: Iterable[pa.RecordBatch], config: ApplyConfig) -> AsyncGenerator[list[InputRow], None]:
    """Iterate over the rows in lists of at most `batch_rows`, which travel together."""
    source = iter(batches)
    while True:
        # Wait in a thread: the next batch may take long, and the requests under way have deadlines meanwhile.
        batch = await asyncio.to_thread(next, source, None)
        if batch is None:
            return
        if config.policy is Policy.REPLACE:
            _check_source(batch, config)
        for start in range(0, batch.num_rows, config.batch_rows):
            yield rows_of(config.table, batch.slice(start, config.batch_rows))


def _check_source(batch: pa.RecordBatch, config: ApplyConfig) -> None:
    """Raise InvalidArgumentError if rows lack their version or backend, or come from a store of another kind."""
    if "backend" not in batch.schema.names or "version" not in batch.schema.names:
        raise InvalidArgumentError(
            f"the policy {config.policy} needs the columns 'version' and 'backend' as they were read from the store"
        )
    mine = MetadataUrl.parse(config.url).family
    for backend in batch.column("backend").unique().to_pylist():
        if backend is None or family_of(backend) != mine:
            raise InvalidArgumentError(
                f"rows whose backend is {backend!r} cannot replace records in {config.url}. The version of a record "
                "has a meaning only in the store that it was read from"
            )


async def _write(store: MetadataStore, rows: Sequence[InputRow], config: ApplyConfig) -> Statistics:
    """Write some rows; return what became of each. Raises MetadataUnavailableError."""
    statistics = Statistics()
    pending: list[tuple[InputRow, Write[Any]]] = []
    for row in rows:
        try:
            pending.append((row, _operation(row, config.policy)))
        except HedwigError as exc:
            statistics.add(WriteResult.FAILED, str(exc))
    if config.policy is Policy.REPLACE:
        pending = await _lossless(store, pending, config.table, statistics)
    for _ in range(_TRIES):
        if not pending:
            break
        outcomes = await apply_to(store, config.table.kind, [write for _, write in pending])
        again, unknown = [], None
        for (row, write), outcome in zip(pending, outcomes, strict=True):
            result = judge(config.table, config.policy, row, outcome)
            if isinstance(result, WriteResult):
                statistics.add(result, _problem(config.table, write, result, outcome))
            else:
                again.append((row, write))
                unknown = result
        pending = again
    if pending and unknown is not None:
        raise unknown
    return statistics


async def _lossless(
    store: MetadataStore, pending: list[tuple[InputRow, Write[Any]]], table: Table, statistics: Statistics
) -> list[tuple[InputRow, Write[Any]]]:
    """Return the writes that lose nothing; count the rest as failed.

    A row has no columns for the fields of a newer release, so a record that it replaces would lose them. This does not
    choose the condition of a write. It only leaves alone each record that has such fields now, at any version.

    Raises: MetadataUnavailableError.
    """
    reads: list[Operation[Any]] = [Read(write.key) for _, write in pending]
    kept = []
    for (row, write), outcome in zip(pending, await apply_to(store, table.kind, reads), strict=True):
        if isinstance(outcome.error, MetadataUnavailableError):
            raise outcome.error
        if outcome.record is not None and has_unknown_fields(outcome.record.value):
            statistics.add(
                WriteResult.FAILED,
                f"the {table.kind.noun} of {write.key} has fields of a newer release, which a row cannot hold, so it "
                "is not replaced. Use the release that wrote it",
            )
        else:
            kept.append((row, write))
    return kept


def _operation(row: InputRow, policy: Policy) -> Write[Any]:
    """Return the write of a row. Raises what is wrong with the row."""
    if row.error is not None:
        raise row.error
    assert row.key is not None, "a row without a key has an error"
    return Write(row.key, row.record, condition(policy, row))


def _problem(table: Table, write: Write[Any], result: WriteResult, outcome: Outcome[Any]) -> str | None:
    """Return what is wrong with a row that was not written; None if nothing is."""
    if result not in PROBLEMS:
        return None
    what = f"the {table.kind.noun} of {write.key}"
    match result:
        case WriteResult.SUPERSEDED:
            return f"{what} was changed since it was read"
        case WriteResult.CONFLICT if write.version == NEW:
            return f"{what} exists already, and differs from the row"
        case WriteResult.CONFLICT:
            return f"{what} is gone, so that there is nothing to replace"
        case _:
            return str(outcome.error)


@contextmanager
def _advice_on_freezes(config: ApplyConfig) -> Iterator[None]:
    try:
        yield
    except StoreFrozenError as exc:
        raise TargetFrozenError(
            f"{exc}, so nothing more is written to {config.url}. Once the migration is done, run the job again with "
            f"the new store ({exc.freeze.target}). Or go back to this one with: "
            f"hedwig-admin metadata thaw --metadata '{config.url}'"
        ) from exc
