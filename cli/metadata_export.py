"""The commands `hedwig-admin metadata export` and `import`: a store, or a part of it, as a portable file."""

import asyncio
import fcntl
import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from cli.access import with_store, with_store_to_load
from cli.confirmation import confirm
from cli.errors import CommandError, ExitCode, counted, remedy
from cli.input_file import InputFile
from cli.names import PREFIX
from cli.program import AdminCommand
from cli.progress import LoadProgress, load_progress, working
from cli.settings import Settings, pass_settings
from hedwig.names import show_name
from metadata import MetadataStore, ScannedRecord, read_layout
from metadata.bulk import BATCH_ROWS, load_batches
from metadata.copying import CopyConflictError, CopyResult, Existing, copy_records
from metadata.export_file import ExportEnd, ExportHeader, ExportReader, ExportWriter, PlainRecord, verify
from metadata.freeze_watch import FreezeWatch
from metadata.kinds import KINDS, OWNERSHIP

__all__ = ["export_store", "import_store"]

_COUNTED: Final = {"ownership": "owners", "persistence": "topics", "subscriptions": "subscriptions"}


# --------------------------------------------------------------------------------------------------------------- export


@click.command("export", cls=AdminCommand, example="hedwig-admin metadata export hedwig.metadata.gz")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--prefix", type=PREFIX, metavar="P", help="Only topics whose names begin so.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists, once the new one is whole.")
@click.option("--skip-unreadable", is_flag=True, help="Leave out records that cannot be read, and name them.")
@pass_settings
def export_store(settings: Settings, file: Path, prefix: bytes | None, overwrite: bool, skip_unreadable: bool) -> None:
    """Write all records of a store to FILE, compressed, for any backend and any later release to read back.

    FILE appears when it is whole. Hubs may run meanwhile: each record is as it was at some moment of the export.
    """
    if file.exists() and not file.is_file():
        # A device or a pipe would give way to a file.
        raise CommandError(
            f"{settings.command}: {file} is no regular file, and would be replaced by one; give another name",
            ExitCode.USAGE,
        )
    if file.exists() and not overwrite:
        raise CommandError(f"{settings.command}: {file} exists already; --overwrite replaces it")
    output = settings.writer()
    with load_progress("exporting", None, noun="records") as progress, _whole_file(file) as raw:
        export = _Export(settings, progress, prefix or b"", skip_unreadable)
        end = with_store(settings, lambda store: export.run(store, raw))
        progress.stop()
    output.record(
        {"file": str(file), "records": end.records}
        | {_COUNTED[kind]: number for kind, number in end.counts.items()}
        | ({"unreadable": export.unreadable} if skip_unreadable else {})
        | {"bytes": file.stat().st_size, "sha256": end.sha256.hex()}
        | {"seconds": round(progress.seconds, 3), "records_per_second": round(progress.rows_per_second)}
    )


class _Export:
    """One export of a store."""

    def __init__(self, settings: Settings, progress: LoadProgress, prefix: bytes, skip_unreadable: bool) -> None:
        self._settings = settings
        self._progress = progress
        self._prefix = prefix
        self._skips = skip_unreadable
        self.unreadable = 0

    async def run(self, store: MetadataStore, raw: BinaryIO) -> ExportEnd:
        """Write everything to `raw`; return what that is."""
        writer = ExportWriter(raw, await self._header())
        async with aclosing(store.scan(self._prefix)) as pages:
            async for page in pages:
                records = [PlainRecord(item.kind, item.key, item.read().value) for item in page if self._keeps(item)]
                # Compressing leaves the interpreter to others meanwhile: the next page comes.
                await asyncio.to_thread(writer.write, records)
                self._progress.advance(len(records), 0)
        return await asyncio.to_thread(writer.finish)

    async def _header(self) -> ExportHeader:
        layout = await read_layout(self._settings.url, self._settings.store_options())
        return ExportHeader(
            url=self._settings.url,
            # A store in memory shows its layout to nobody else.
            kind="" if layout is None else layout.kind,
            store_id="" if layout is None else layout.store_id,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            prefix=self._prefix,
        )

    def _keeps(self, item: ScannedRecord) -> bool:
        if item.error is None:
            return True
        if not self._skips:
            raise CommandError(
                f"{self._settings.command} failed: {item.error}; mend or delete the record, or leave such records out "
                "with --skip-unreadable; no file was written"
            )
        self.unreadable += 1
        self._progress.say(f"left out: {item.error}")
        return False


@contextmanager
def _whole_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `file` at the end, and is gone after an error.

    Raises: CommandError - another export writes it, or it cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as raw:
            try:
                fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise CommandError(f"another export is writing {part}; wait for it, or give another name") from exc
            try:
                # What an export that was killed left is of no use.
                os.ftruncate(descriptor, 0)
                yield raw
                raw.flush()
                os.fsync(descriptor)
                part.replace(file)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as exc:
        raise CommandError(
            f"cannot write {part}: {exc.strerror}; {remedy(exc)}, or give another place; no file was written"
        ) from exc


# --------------------------------------------------------------------------------------------------------------- import


@click.command("import", cls=AdminCommand, example="hedwig-admin metadata import hedwig.metadata.gz --if-exists skip")
@click.argument("file", type=InputFile(path_type=Path))
@click.option("--prefix", type=PREFIX, metavar="P", help="Only topics whose names begin so.")
@click.option(
    "--if-exists",
    type=click.Choice([each.value for each in Existing]),
    default=Existing.FAIL.value,
    show_default=True,
    help="What to do about a record that the store has and that differs; an equal one is passed over.",
)
@click.option("--with-owners", is_flag=True, help="Import owner records too: only for hubs that kept their epochs.")
@click.option("--dry-run", is_flag=True, help="Check the file, say what it holds, and change nothing.")
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

    The whole file is checked before anything is written. An import that was ended goes on when it is given again: what
    is in the store already, and equal, is passed over. Owner records are left out, since they name live hubs.
    """
    output = settings.writer()
    with asyncio.Runner() as runner:
        header, end = runner.run(_verified(file))
    if dry_run:
        output.record(_held(file, header, end))
        return
    existing = Existing(if_exists)
    if existing is Existing.REPLACE and not yes:
        confirm(
            f"this writes up to {counted(end.records, 'record')} of {file} into {settings.url}, and replaces those "
            "there that differ"
        )
    with load_progress("importing", end.records, noun="records") as progress:
        running = _Import(file, progress, prefix or b"", existing, with_owners)
        try:
            with_store_to_load(settings, running.run)
        except CopyConflictError as exc:
            raise CommandError(
                f"{settings.command}: {exc}; {running.words}; --if-exists skip keeps what is there, --if-exists "
                "replace overwrites it"
            ) from exc
        except (Exception, KeyboardInterrupt):
            progress.say(f"stopped: {running.words}; to go on, give the same command again")
            raise
        finally:
            progress.stop()
    output.record(
        {"file": str(file), "metadata": settings.url}
        | running.fields
        | {"seconds": round(progress.seconds, 3), "records_per_second": round(progress.rows_per_second)}
    )


class _Import:
    """One import of a file that was found whole."""

    def __init__(
        self, file: Path, progress: LoadProgress, prefix: bytes, existing: Existing, with_owners: bool
    ) -> None:
        self._file = file
        self._progress = progress
        self._prefix = prefix
        self._existing = existing
        self._with_owners = with_owners
        self._counts: Counter[CopyResult] = Counter()
        self._read = 0
        self._owners_left_out = 0

    @property
    def fields(self) -> dict[str, Any]:
        """Return what came of the records."""
        names = {
            CopyResult.CREATED: "created",
            CopyResult.EQUAL: "equal",
            CopyResult.REPLACED: "replaced",
            CopyResult.KEPT: "kept",
        }
        counts = {name: self._counts[result] for result, name in names.items()}
        return {"records": self._counts.total(), **counts, "owners_left_out": self._owners_left_out}

    @property
    def words(self) -> str:
        """Say what was done so far."""
        done = self.fields
        return (
            f"{done['created']:,} records were created, {done['replaced']:,} replaced, "
            f"{done['equal'] + done['kept']:,} left as they were"
        )

    async def run(self, store: MetadataStore, watch: FreezeWatch) -> None:
        """Write everything."""

        def record(batch: list[PlainRecord], counts: Counter[CopyResult]) -> None:
            self._counts += counts
            self._progress.advance(len(batch), self._read)

        async def write(batch: list[PlainRecord]) -> Counter[CopyResult]:
            return await watch.carry_out(lambda: copy_records(store, batch, self._existing))

        with ExportReader(self._file) as reader:
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
        if not record.key.topic.startswith(self._prefix):
            return False
        if record.kind is OWNERSHIP and not self._with_owners:
            self._owners_left_out += 1
            return False
        return True


async def _verified(file: Path) -> tuple[ExportHeader, ExportEnd]:
    async with working(f"checking {file.name}"):
        return await asyncio.to_thread(verify, file)


def _held(file: Path, header: ExportHeader, end: ExportEnd) -> dict[str, Any]:
    return (
        {"file": str(file), "records": end.records}
        | {_COUNTED[kind.name]: end.counts.get(kind.name, 0) for kind in KINDS}
        | {
            "format": f"{header.major}.{header.minor}",
            "exported_at": header.at,
            "exported_from": header.url,
            "backend": header.kind,
            "prefix": show_name(header.prefix) or None,
            "sha256": end.sha256.hex(),
        }
    )
