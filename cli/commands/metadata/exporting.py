"""The command `hedwig-admin metadata export`: a store, or a part of it, as a portable file."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import click

from hedwig.cli.arguments.names import PREFIX
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore, ScannedRecord, read_layout
from hedwig.metadata.bulk.export_file import ExportEnd, ExportHeader, ExportWriter, PlainRecord
from hedwig.metadata.logs.transfer import has_logs, read_logs
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import remedy
from hedwig.operations.progress import LoadProgress, load_progress

__all__ = ["COUNTED", "export_store"]

COUNTED: Final = {"ownership": "owners", "persistence": "topics", "subscriptions": "subscriptions"}
"""The names of the counts in results, by kind of record."""


@click.command("export", cls=AdminCommand, example="hedwig-admin metadata export hedwig.metadata.gz")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--prefix", type=PREFIX, metavar="P", help="Only topics whose names begin with P.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists, once the new one is complete.")
@click.option("--skip-unreadable", is_flag=True, help="Leave out records that cannot be read, and name them.")
@pass_settings
def export_store(settings: Settings, file: str, prefix: bytes | None, overwrite: bool, skip_unreadable: bool) -> None:
    """Write all records of a store to FILE, compressed, for any backend and any later release to read back.

    FILE appears when it is complete. Hubs may run meanwhile: each record is as it was at some moment of the export.
    With -, the records go to standard output, and the result to standard error. An import checks that they are
    complete.
    """
    if file == "-":
        _to_stdout(settings, prefix or b"", skip_unreadable)
    else:
        _to_file(settings, Path(file), prefix or b"", overwrite, skip_unreadable)


def _to_stdout(settings: Settings, prefix: bytes, skip_unreadable: bool) -> None:
    if sys.stdout.isatty():
        raise OperationError(
            f"{settings.command}: standard output is a terminal, and an export is no text; give a file, or a pipe",
            ExitCode.USAGE,
        )
    with load_progress("exporting", None, noun="records") as progress:
        export = _Export(settings, progress, prefix, skip_unreadable)
        end = with_store(settings.deployment, lambda store: export.run(store, sys.stdout.buffer))
        progress.stop()
    left_out = f", {export.unreadable:,} unreadable left out" if skip_unreadable else ""
    click.echo(f"exported {counted(end.records, 'record')}{left_out}, sha256 {end.sha256.hex()}", err=True)


def _to_file(settings: Settings, file: Path, prefix: bytes, overwrite: bool, skip_unreadable: bool) -> None:
    if file.exists() and not file.is_file():
        # The new file would replace a device or a pipe.
        raise OperationError(
            f"{settings.command}: {file} is no regular file, and would be replaced by one; give another name",
            ExitCode.USAGE,
        )
    if file.exists() and not overwrite:
        raise OperationError(f"{settings.command}: {file} exists already; --overwrite replaces it")
    output = settings.writer()
    with load_progress("exporting", None, noun="records") as progress, _whole_file(file) as raw:
        export = _Export(settings, progress, prefix, skip_unreadable)
        end = with_store(settings.deployment, lambda store: export.run(store, raw))
        progress.stop()
    output.record(
        {"file": str(file), "records": end.records}
        | {COUNTED[kind]: number for kind, number in end.counts.items()}
        | {"logs": end.logs}
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
        """Write everything to `raw`; return the end of the export, which counts its records."""
        header = await self._header()
        if await has_logs(store.named_records):
            header = header.with_logs()
        writer = ExportWriter(raw, header)
        async with aclosing(store.scan(self._prefix)) as pages:
            async for page in pages:
                records = [PlainRecord(item.kind, item.key, item.read().value) for item in page if self._keeps(item)]
                # Compression releases the interpreter, so the next page can arrive meanwhile.
                await asyncio.to_thread(writer.write, records)
                self._progress.advance(len(records), 0)
        if writer.named_logs and not header.may_have_logs:
            raise OperationError(
                f"{self._settings.command} failed: the store got its first shared log meanwhile; give the command again"
            )
        # Read after all that names them, so that no segment is missing that was sealed or merged meanwhile.
        await asyncio.to_thread(writer.write_logs, await read_logs(store.named_records, writer.named_logs))
        return await asyncio.to_thread(writer.finish)

    async def _header(self) -> ExportHeader:
        layout = await read_layout(self._settings.deployment.url, self._settings.deployment.options_to_look())
        return ExportHeader(
            url=self._settings.deployment.url,
            # A store in memory shows its layout to its opener only.
            kind="" if layout is None else layout.kind,
            store_id="" if layout is None else layout.store_id,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            prefix=self._prefix,
        )

    def _keeps(self, item: ScannedRecord) -> bool:
        if item.error is None:
            return True
        if not self._skips:
            raise OperationError(
                f"{self._settings.command} failed: {item.error}; mend or delete the record, or leave such records out "
                "with --skip-unreadable; no file was written"
            )
        self.unreadable += 1
        self._progress.say(f"left out: {item.error}")
        return False


@contextmanager
def _whole_file(file: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces `file` at the end, and is removed after an error.

    Raises: OperationError - another export writes it, or it cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as raw:
            try:
                fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as exc:
                raise OperationError(f"another export is writing {part}; wait for it, or give another name") from exc
            try:
                # The partial file of a killed export is of no use.
                os.ftruncate(descriptor, 0)
                yield raw
                raw.flush()
                os.fsync(descriptor)
                part.replace(file)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as exc:
        raise OperationError(
            f"cannot write {part}: {exc.strerror}; {remedy(exc)}, or give another path; no file was written"
        ) from exc
