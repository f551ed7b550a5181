"""Bulk creation: sends the rows of a file through a loader, with progress, and with a result file to resume from."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from hedwig.errors import OperationError
from hedwig.metadata import MetadataStore, RecordKey
from hedwig.metadata.bulk.loading import BATCH_ROWS, BATCHES_IN_FLIGHT, RowOutcome, RowResult, load_batches
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.store import with_store_to_load
from hedwig.operations.loads.bulk_input import BulkInput, InputLine, RowBatch
from hedwig.operations.loads.result_file import LoadIdentity, ResultFile
from hedwig.operations.progress import LoadProgress, load_progress

__all__ = ["BulkOptions", "Creator", "run_load"]

_FAILURES_SHOWN: Final = 10


class Creator(Protocol):
    """Creates the rows of a load."""

    async def create(self, keys: Sequence[RecordKey]) -> list[RowOutcome]:
        """Create what `keys` name; return one outcome for each, in their order."""

    async def exists(self, key: RecordKey) -> bool:
        """Say whether what `key` names exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions:
    """What the user says of a load.

    Args:
        file: a tab-separated file of names, plain or gzip; - is standard input.
        result: where failures and progress go, and from where the load resumes; None for a file beside the input.
        restart: begin anew, and overwrite the result file.
        batch_rows: rows that go to the store together.
        in_flight: maximum number of batches under way at once.
    """

    file: str
    result: Path | None = None
    restart: bool = False
    batch_rows: int = BATCH_ROWS
    in_flight: int = BATCHES_IN_FLIGHT


def run_load(
    deployment: Deployment,
    options: BulkOptions,
    make: Callable[[MetadataStore], Creator],
    write: Callable[[Mapping[str, Any]], None],
    *,
    with_subscriber: bool,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Run a load, or resume it.

    Args: make - returns what creates the rows; write - receives the result, also if rows failed; with_subscriber -
        whether a row has a second column; given - further options, which must be the same when the load resumes.
    Raises: OperationError - rows failed, or the input or the result file cannot be used; MetadataUnavailableError - the
        store stopped answering, and the same command resumes from there.
    """
    command = deployment.command
    load = LoadIdentity(command=command, metadata=deployment.url, options=given or {}, input=options.file)
    path = options.result or _default_result(options.file, command)
    with (
        closing(BulkInput(options.file, with_subscriber=with_subscriber)) as source,
        closing(ResultFile(path, load, restart=options.restart)) as results,
        load_progress(source.label, source.size) as progress,
    ):
        running = _RunningLoad(source, results, progress, options)
        try:
            with_store_to_load(deployment, lambda store, watch: running.run(make(store), watch))
        except (Exception, KeyboardInterrupt):
            if results.checkpoint.rows:
                line = results.checkpoint.position.line
                progress.say(f"stopped after line {line}; {_how_to_go_on(options, path)}")
            else:
                # The load recorded nothing, so its result file is of no use.
                path.unlink(missing_ok=True)
            raise
        finally:
            progress.stop()
        write(running.summary())
    if results.checkpoint.failed:
        raise OperationError(
            f"{command}: {results.checkpoint.failed} of {results.checkpoint.rows} rows failed; "
            f"see {path}, correct them, and give the command again"
        )


class _RunningLoad:
    """One run of a load, from its checkpoint to its end."""

    def __init__(self, source: BulkInput, results: ResultFile, progress: LoadProgress, options: BulkOptions) -> None:
        self._source = source
        self._results = results
        self._progress = progress
        self._options = options
        self._failures_shown = 0
        self._resumed_after = results.checkpoint.position.line
        self._topics_before = results.checkpoint.topics_created

    async def run(self, creator: Creator, watch: FreezeWatch) -> None:
        """Load the rest."""
        await self._skip(creator)

        async def carry_out(batch: RowBatch) -> list[RowOutcome]:
            good = [row.key for row in batch.rows if row.key is not None]
            # A batch that a migration may have missed is not recorded. A resumed load does it again.
            outcomes = iter(await watch.carry_out(lambda: creator.create(good)) if good else ())
            return [
                RowOutcome(RowResult.FAILED, row.problem) if row.key is None else next(outcomes) for row in batch.rows
            ]

        def record(batch: RowBatch, outcomes: Sequence[RowOutcome]) -> None:
            made = self._topics_before + int(getattr(creator, "topics_created", 0))
            before = self._results.checkpoint
            self._results.record(batch.rows, outcomes, before.after(batch.rows, outcomes, batch.end, made))
            self._show_failures(batch.rows, outcomes)
            self._progress.advance(len(batch.rows), batch.read_bytes)

        try:
            await load_batches(self._batches(), carry_out, record, in_flight_max=self._options.in_flight)
        finally:
            # A thread may still wait for input. Only this ends it.
            self._source.interrupt()
        self._results.finish()

    def summary(self) -> dict[str, Any]:
        """Return the result of the load, all runs together. Rate and time are of this run."""
        total = self._results.checkpoint
        return {
            "rows": total.rows,
            "created": total.created,
            "existed": total.existed,
            "failed": total.failed,
            **({"topics_created": total.topics_created} if self._source.with_subscriber else {}),
            "resumed_after_line": self._resumed_after or None,
            "seconds": round(self._progress.seconds, 3),
            "rows_per_second": round(self._progress.rows_per_second),
            "result_file": str(self._results.path),
        }

    async def _skip(self, creator: Creator) -> None:
        checkpoint = self._results.checkpoint
        if self._results.resumed:
            await self._check_store(creator, checkpoint.last)
            self._progress.say(f"going on after line {checkpoint.position.line}, as {self._results.path} says")
            if not await asyncio.to_thread(self._source.skip_to, checkpoint.position):
                raise OperationError(
                    f"the first {checkpoint.position.line} lines of {self._options.file} changed since the load in "
                    f"{self._results.path} read them; put them back, or begin anew with --restart"
                )
        self._progress.begin(self._source.read_bytes)

    async def _check_store(self, creator: Creator, last: RecordKey | None) -> None:
        """Check that the last row on record is in the store, so that a store wiped since does not count as loaded."""
        if last is not None and not await creator.exists(last):
            raise OperationError(
                f"{self._results.path} says that {last} was loaded, but the store has no such record any more; "
                "begin anew with --restart"
            )

    async def _batches(self) -> AsyncIterator[RowBatch]:
        while (batch := await asyncio.to_thread(self._source.read_batch, self._options.batch_rows)) is not None:
            yield batch

    def _show_failures(self, rows: Sequence[InputLine], outcomes: Sequence[RowOutcome]) -> None:
        for row, outcome in zip(rows, outcomes, strict=True):
            if outcome.result is not RowResult.FAILED or self._failures_shown > _FAILURES_SHOWN:
                continue
            self._failures_shown += 1
            if self._failures_shown > _FAILURES_SHOWN:
                self._progress.say(f"further failures are in {self._results.path} only")
            else:
                self._progress.say(f"line {row.line} failed: {outcome.reason}")


def _default_result(file: str, command: str) -> Path:
    """Return the default path of the result file: beside the input, named after the command."""
    suffix = f"{command.replace(' ', '-')}-result.ndjson"
    if file == "-":
        # Standard input has no name, and two loads from it have nothing to do with each other.
        return Path(f"stdin-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{suffix}")
    return Path(f"{file}.{suffix}")


def _how_to_go_on(options: BulkOptions, path: Path) -> str:
    again = "give the same command again"
    if options.file == "-":
        again += " with the same input" + ("" if options.result else f" and --result {path}")
    return f"to go on from there, {again}"
