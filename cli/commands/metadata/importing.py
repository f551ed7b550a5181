"""The command `hedwig-admin metadata import`: the records of a portable file, into a store of any kind."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.input_file import InputFile
from hedwig.cli.arguments.names import PREFIX
from hedwig.cli.commands.metadata.exporting import COUNTED
from hedwig.cli.output.formats import Output
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore, MetadataUrl, open_metadata, read_layout
from hedwig.metadata.bulk.copying import CopyConflictError, CopyResult, Existing, copy_records, plan_copy
from hedwig.metadata.bulk.export_file import ExportReader, PlainRecord, Verified, verify
from hedwig.metadata.bulk.loading import BATCH_ROWS, load_batches
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP
from hedwig.metadata.logs.transfer import logs_brought, logs_to_bring
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.names import show_name
from hedwig.operations.deployment.store import watching, with_store_to_load
from hedwig.operations.progress import LoadProgress, load_progress, working

__all__ = ["import_store"]

_WAYS: Final = "--if-exists skip keeps what is there, --if-exists replace overwrites it"
_PLANNED: Final = {
    CopyResult.CREATED: "would_create",
    CopyResult.EQUAL: "equal",
    CopyResult.REPLACED: "would_replace",
    CopyResult.KEPT: "would_keep",
    CopyResult.REFUSED: "would_refuse",
}


@click.command("import", cls=AdminCommand, example="hedwig-admin metadata import hedwig.metadata.gz --if-exists skip")
@click.argument("file", type=InputFile(path_type=Path))
@click.option("--prefix", type=PREFIX, metavar="P", help="Only topics whose names begin with P.")
@click.option(
    "--if-exists",
    type=click.Choice([each.value for each in Existing]),
    default=Existing.FAIL.value,
    show_default=True,
    help="What to do about a record that differs in the store; an equal one stays.",
)
@click.option("--with-owners", is_flag=True, help="Import owner records too: only for hubs that kept their epochs.")
@click.option("--dry-run", is_flag=True, help="Say what FILE holds and what an import would do; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before --if-exists replace.")
@pass_settings
def import_store(
    settings: Settings,
    file: Path,
    prefix: bytes | None,
    if_exists: str,
    with_owners: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Read the records of FILE, which metadata export wrote, into a store of any kind.

    The command checks the whole file before it writes. To resume an import that was ended, give the command again: it
    passes over records that are equal in the store. Owner records are left out, since they name live hubs.
    """
    if not file.is_file():
        # Opening a pipe without a writer would wait without end. A pipe with a writer can be read only once.
        raise OperationError(
            f"{settings.command}: {file} is no regular file, and an import reads it twice; copy it to a file first",
            ExitCode.USAGE,
        )
    output = settings.writer()
    existing = Existing(if_exists)
    options = _Options(file=file, prefix=prefix or b"", existing=existing, with_owners=with_owners)
    with asyncio.Runner() as runner:
        verified = runner.run(_verified(options))
    end = verified.end
    if dry_run:
        _tell_plan(settings, output, options, verified)
        return
    if existing is Existing.REPLACE and not yes:
        records = end.records if with_owners else end.records - end.counts.get(OWNERSHIP.name, 0)
        confirm(
            f"this writes up to {counted(records, 'record')} of {file} into {settings.deployment.url}, and "
            "replaces those there that differ"
        )
    with load_progress("importing", end.records, noun="records") as progress:
        running = _Import(options, verified, progress, copy_records)
        try:
            with_store_to_load(settings.deployment, running.run)
        except CopyConflictError as exc:
            raise OperationError(
                f"{settings.command}: {exc}; {running.words}; {_WAYS}", ExitCode.VERSION_CONFLICT
            ) from exc
        except (Exception, KeyboardInterrupt):
            if running.has_begun:
                progress.say(f"stopped: {running.words}; to go on, give the same command again")
            raise
        finally:
            progress.stop()
    output.record(
        {"file": str(file), "metadata": settings.deployment.url}
        | running.fields
        | {"seconds": round(progress.seconds, 3), "records_per_second": round(progress.rows_per_second)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """Which records of a file to import, and what to do with those that the store has."""

    file: Path
    prefix: bytes
    existing: Existing
    with_owners: bool

    def covers(self, record: PlainRecord) -> bool:
        return record.key.topic.startswith(self.prefix)

    def leaves_out(self, record: PlainRecord) -> bool:
        return record.kind is OWNERSHIP and not self.with_owners

    def wants(self, record: PlainRecord) -> bool:
        return self.covers(record) and not self.leaves_out(record)


class _Import:
    """One import of a checked file. `copy` writes a batch, or only counts what writing it would do."""

    def __init__(
        self,
        options: _Options,
        verified: Verified,
        progress: LoadProgress,
        copy: Callable[[MetadataStore, Sequence[PlainRecord], Existing], Awaitable[Counter[CopyResult]]],
    ) -> None:
        self.has_begun = False
        self.counts: Counter[CopyResult] = Counter()
        self.owners_left_out = 0
        self.logs = 0
        """How many logs the store lacked, or had in an older state."""
        self._options = options
        self._verified = verified
        self._progress = progress
        self._copy = copy
        self._read = 0

    @property
    def fields(self) -> dict[str, Any]:
        """Return the counts of records by outcome."""
        names = {
            CopyResult.CREATED: "created",
            CopyResult.EQUAL: "equal",
            CopyResult.REPLACED: "replaced",
            CopyResult.KEPT: "kept",
        }
        counts = {name: self.counts[result] for result, name in names.items()}
        return {
            "records": self.counts.total(),
            **counts,
            "owners_left_out": self.owners_left_out,
            "logs_written": self.logs,
        }

    @property
    def words(self) -> str:
        """Say what was done until now."""
        done = self.fields
        return (
            f"{done['created']:,} records were created, {done['replaced']:,} replaced, "
            f"{done['equal'] + done['kept']:,} left as they were"
        )

    async def run(self, store: MetadataStore, watch: FreezeWatch) -> None:
        """Import all records."""
        if not self._verified.header.may_have_logs:
            await self._run(store, watch)
            return
        async with logs_brought(store, self._verified.logs, watch.carry_out) as self.logs:
            await self._run(store, watch)

    async def look(self, store: MetadataStore, watch: FreezeWatch) -> None:
        """Count what an import would do; write nothing."""
        self.logs = len(await logs_to_bring(store.named_records, self._verified.logs))
        await self._run(store, watch)

    async def _run(self, store: MetadataStore, watch: FreezeWatch) -> None:
        self.has_begun = True

        def record(batch: list[PlainRecord], counts: Counter[CopyResult]) -> None:
            self.counts += counts
            self._progress.advance(len(batch), self._read)

        async def write(batch: list[PlainRecord]) -> Counter[CopyResult]:
            return await watch.carry_out(lambda: self._copy(store, batch, self._options.existing))

        with ExportReader(self._options.file) as reader:
            async with aclosing(self._batches(reader)) as batches:
                await load_batches(batches, write, record)

    async def _batches(self, reader: ExportReader) -> AsyncGenerator[list[PlainRecord], None]:
        while (records := await asyncio.to_thread(reader.read)) is not None:
            for start in range(0, len(records), BATCH_ROWS):
                part = records[start : start + BATCH_ROWS]
                self._read += len(part)
                if wanted := [each for each in part if self._wants(each)]:
                    yield wanted

    def _wants(self, record: PlainRecord) -> bool:
        if not self._options.covers(record):
            return False
        if self._options.leaves_out(record):
            self.owners_left_out += 1
            return False
        return True


def _tell_plan(settings: Settings, output: Output, options: _Options, verified: Verified) -> None:
    """Write what the file holds, and what an import would do. Raises OperationError if the import would fail."""
    with load_progress("comparing", verified.end.records, noun="records") as progress:
        looking = _Import(options, verified, progress, plan_copy)
        asyncio.run(_look(settings, looking))
        progress.stop()
    counts = {name: looking.counts[result] for result, name in _PLANNED.items()}
    output.record(
        _held(options.file, verified)
        | {"metadata": settings.url_to_show, **counts, "owners_left_out": looking.owners_left_out}
        | {"would_write_logs": looking.logs}
    )
    if refused := looking.counts[CopyResult.REFUSED]:
        raise OperationError(
            f"{settings.command} cannot be done yet: {settings.url_to_show} holds other values for "
            f"{counted(refused, 'record')} of {options.file}; {_WAYS}",
            ExitCode.VERSION_CONFLICT,
        )


async def _look(settings: Settings, looking: _Import) -> None:
    """Compare the file with the target. A SQLite file that does not exist counts as empty, and is not made."""
    url, options = settings.url_to_show, settings.deployment.options_to_look()
    is_to_be_made = MetadataUrl.parse(url).scheme == "sqlite" and await read_layout(url, options) is None
    async with await open_metadata("sqlite://" if is_to_be_made else url, options) as store:
        await watching(settings.deployment, store, lambda watch: looking.look(store, watch))


async def _verified(options: _Options) -> Verified:
    async with working(f"checking {options.file.name}"):
        return await asyncio.to_thread(verify, options.file, options.wants)


def _held(file: Path, verified: Verified) -> dict[str, Any]:
    header, end, _ = verified
    return (
        {"file": str(file), "records": end.records}
        | {COUNTED[kind.name]: end.counts.get(kind.name, 0) for kind in KINDS}
        | {"logs": end.logs}
        | {
            "format": f"{header.major}.{header.minor}",
            "exported_at": header.at,
            "exported_from": header.url,
            "backend": header.kind,
            "prefix": show_name(header.prefix) or None,
            "sha256": end.sha256.hex(),
        }
    )
