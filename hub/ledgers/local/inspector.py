"""Inspect the directory of a local store, beside the process that has it. Nothing is locked, written or cut off.

An inspector sees what a start would find at this moment. In the newest segment, that includes entries that were written
and are about to be acknowledged, and excludes one that is half written. The hub may rewrite and remove segments
meanwhile; then the inspector looks again.
"""

import asyncio
import errno
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from hedwig.errors import ConfigurationError, CorruptEntryError, LedgerStoreUnavailableError, NoSuchLedgerError
from hedwig.hub.ledgers.inspection import LedgerFacts
from hedwig.hub.ledgers.local.segments.catalog import Catalog, Segment
from hedwig.hub.ledgers.local.segments.directory import StoreFiles
from hedwig.hub.ledgers.local.segments.index import SegmentIndex
from hedwig.hub.ledgers.local.segments.index_file import DamagedIndexError, DiskIndex
from hedwig.hub.ledgers.local.segments.reading import Reader
from hedwig.hub.ledgers.local.segments.records import FIRST_RECORD, SegmentHeader, UnreadableHeaderError
from hedwig.hub.ledgers.local.segments.scanning import index_segment

__all__ = ["LocalLedgerInspector"]

T = TypeVar("T")

_LOOKS_MAX: Final = 16
_ENTRIES: Final = 1 << 62


class LocalLedgerInspector:
    """A LedgerInspector on the directory of a local store. What it sees is as old as its last look."""

    def __init__(self, files: StoreFiles) -> None:
        """Take a first look. It blocks, so callers use `open`."""
        self._files = files
        self._catalog = Catalog()
        self._reader = Reader(self._catalog, _refuse)
        self._look()

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Look into the directory `path`.

        Raises: ConfigurationError - there are no ledgers, or they have a newer format; LedgerStoreUnavailableError - it
            cannot be read.
        """
        if not await asyncio.to_thread(path.is_dir):
            raise ConfigurationError(f"there are no ledgers in {path}: it is no directory")
        return await asyncio.to_thread(cls, StoreFiles(path))

    async def facts(self, ledger_id: int) -> LedgerFacts:
        return await asyncio.to_thread(self._while_segments_go, lambda: self._facts(ledger_id))

    async def read(self, ledger_id: int, first_entry_id: int, *, entries_max: int, bytes_max: int) -> list[bytes]:
        def read() -> list[bytes]:
            return self._reader.read(ledger_id, first_entry_id, entries_max, bytes_max)

        return await asyncio.to_thread(self._while_segments_go, read)

    async def aclose(self) -> None:
        return

    def ledger_ids(self) -> "array[int]":
        """Return the ids of the ledgers that the last look has seen, ascending."""
        ids = array("Q")
        for group in self._catalog.groups():
            ids.extend(self._catalog.group_ledgers(group))
        return ids

    async def extents(self, ledger_ids: Sequence[int]) -> list[tuple[bool, int] | None]:
        """Return, for each ledger, whether it is closed, and its last entry; None for one that does not exist.

        Raises: LedgerStoreUnavailableError.
        """
        return await asyncio.to_thread(
            lambda: [self._while_segments_go(partial(self._extent, ledger_id)) for ledger_id in ledger_ids]
        )

    def _extent(self, ledger_id: int) -> tuple[bool, int] | None:
        try:
            state = self._reader.state(ledger_id)
        except NoSuchLedgerError:
            return None
        except CorruptEntryError:
            if self._is_stale():
                raise
            return False, -1  # It exists, but its end is lost.
        return state.sealed_by is not None, state.last_entry_id

    def _facts(self, ledger_id: int) -> LedgerFacts:
        state = self._reader.state(ledger_id)
        sizes: dict[int, int] = {}
        for segment in [*self._catalog.unplaced.values(), *self._catalog.candidates(ledger_id)]:
            for key, value in segment.index.rows(ledger_id, 0, _ENTRIES):
                sizes[key] = value & 0xFFFFFFFF
        return LedgerFacts(
            is_closed=state.sealed_by is not None,
            last_entry_id=state.last_entry_id,
            stored_bytes=sum(sizes.values()),
        )

    def _while_segments_go(self, work: Callable[[], T]) -> T:
        """Run `work`. If the hub removed a segment meanwhile, look again and repeat it."""
        for _ in range(_LOOKS_MAX - 1):
            try:
                return work()
            except (CorruptEntryError, FileNotFoundError):
                if not self._is_stale():
                    raise
                self._look()
            except DamagedIndexError as exc:
                raise LedgerStoreUnavailableError(f"{exc}; its hub makes it anew when it starts") from exc
        return work()

    def _is_stale(self) -> bool:
        return not (
            {*self._catalog.unplaced, *self._catalog.placed} <= set(self._files.segments())
            and self._catalog.placed.keys() <= set(self._files.indexes())
        )

    def _look(self) -> None:
        try:
            for attempt in range(_LOOKS_MAX):
                try:
                    self._catalog = _catalog_of(self._files)
                    break
                except FileNotFoundError:
                    if attempt == _LOOKS_MAX - 1:
                        raise
        except OSError as exc:
            raise LedgerStoreUnavailableError(f"cannot look at the ledgers in {self._files.path}: {exc}") from exc
        self._reader = Reader(self._catalog, _refuse)


def _catalog_of(files: StoreFiles) -> Catalog:
    """Return what a start would find. Raises: FileNotFoundError - a file was removed meanwhile; OSError."""
    catalog = Catalog()
    numbers = files.segments()
    headers = {number: _header(files.segment(number)) for number in numbers}
    ends = {header.previous: header.previous_end for header in headers.values() if header is not None}
    deleted = array("Q")
    for number in numbers:
        header, index = headers[number], _index(files, number)
        if header is None and index is None:
            catalog.note_damage(files.segment(number), 0)
            continue
        segment = Segment(number, files.segment(number), header.salt if header is not None else 0)
        contents: SegmentIndex
        if index is not None:
            segment.salt, segment.end, contents = index.facts.salt, index.facts.end, index
            catalog.mark_placed(segment, index, catalog.group_numbers(share.ledger_id for share in index.shares()))
        else:
            end = ends.get(number)
            size = segment.path.stat().st_size if end is None else end
            scan = index_segment(segment.path, segment.salt, size, sealed=end is not None)
            segment.end, segment.index, contents = scan.end, scan.index, scan.index
            for offset in scan.damaged:
                catalog.note_damage(segment.path, offset)
            catalog.unplaced[number] = segment
        for share in contents.shares():
            if share.deleted:
                deleted.append(share.ledger_id)
            catalog.add_ledger(share.ledger_id)
    for ledger_id in deleted:
        catalog.delete_ledger(ledger_id)
    return catalog


def _header(path: Path) -> SegmentHeader | None:
    """Return the header of a segment, None if it is damaged, or is being written."""
    with path.open("rb") as file:
        data = file.read(FIRST_RECORD)
    try:
        return SegmentHeader.decode(data, str(path))
    except UnreadableHeaderError:
        return None


def _index(files: StoreFiles, number: int) -> DiskIndex | None:
    """Return the index file of a segment; None without a sound one, since the segment has all that an index has."""
    try:
        index = DiskIndex.load(files.index(number))
    except (FileNotFoundError, DamagedIndexError):
        return None
    return index if index.facts.number == number else None


def _refuse(segment: Segment) -> None:
    raise OSError(errno.EIO, f"the index of {segment.path} is damaged; its hub makes it anew when it starts")
