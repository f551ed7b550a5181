"""Recovery at a start, from the files that the last process left, whether it was closed or killed."""

import logging
import os
from array import array
from dataclasses import dataclass, field
from typing import Final

from hedwig.errors import CorruptEntryError
from hedwig.hub.ledgers.local.segments.catalog import Catalog, Segment
from hedwig.hub.ledgers.local.segments.directory import StoreDirectory
from hedwig.hub.ledgers.local.segments.disk import Disk
from hedwig.hub.ledgers.local.segments.index_file import DamagedIndexError, DiskIndex
from hedwig.hub.ledgers.local.segments.records import FIRST_RECORD, SegmentHeader, UnreadableHeaderError
from hedwig.hub.ledgers.local.segments.scanning import Scan, index_segment
from hedwig.hub.ledgers.local.upkeep import save_index

__all__ = ["Recovered", "recover"]

_log = logging.getLogger(__name__)

_NOTHING: Final = (0, 0)


@dataclass(slots=True)
class Recovered:
    """The catalog; the next segment's number; number and end of the last one; segments without an index file."""

    catalog: Catalog = field(default_factory=Catalog)
    next_number: int = 1
    previous: tuple[int, int] = _NOTHING
    unplaced: list[Segment] = field(default_factory=list)


def recover(directory: StoreDirectory, disk: Disk) -> Recovered:
    """Cut off the torn tail of the last write, and return what the directory holds.

    Raises: CorruptEntryError - so damaged that ledger ids might be given twice; ConfigurationError - a newer format;
        OSError - a file cannot be read or written.
    """
    recovered = Recovered()
    catalog = recovered.catalog
    for path in directory.unfinished():
        disk.unlink(path)
    numbers = directory.segments()
    headers = _headers(directory, disk, numbers)
    ends = {header.previous: header.previous_end for header in headers.values() if header is not None}
    deleted = array("Q")
    for number in numbers:
        if number not in headers:
            continue
        header = headers[number]
        is_last = number == numbers[-1]
        index = _index(directory, number)
        if index is None and header is None:
            _unreadable(directory, catalog, number, is_last)
            continue
        salt = index.facts.salt if index is not None else header.salt if header is not None else 0
        segment = Segment(number, directory.segment(number), salt)
        if header is not None:
            catalog.next_ledger_id = max(catalog.next_ledger_id, header.next_ledger_id)
        if index is not None:
            segment.end = index.facts.end
            catalog.next_ledger_id = max(catalog.next_ledger_id, index.facts.next_ledger_id)
            catalog.mark_placed(segment, index, catalog.group_numbers(share.ledger_id for share in index.shares()))
        else:
            scan = _scan(segment, ends.get(number), disk, catalog)
            catalog.next_ledger_id = max(catalog.next_ledger_id, scan.ledger_id_max + 1)
            segment.index = scan.index
            catalog.unplaced[number] = segment
        for share in segment.index.shares():
            if share.deleted:
                deleted.append(share.ledger_id)
            catalog.add_ledger(share.ledger_id)
        recovered.previous = number, segment.end
    for ledger_id in deleted:
        catalog.delete_ledger(ledger_id)
    recovered.next_number = max([*numbers, *directory.indexes(), 0]) + 1
    for segment in list(catalog.unplaced.values()):
        _save_index(directory, disk, recovered, segment)
    _note_lost_segments(directory, catalog, numbers)
    return recovered


def _headers(directory: StoreDirectory, disk: Disk, numbers: list[int]) -> dict[int, SegmentHeader | None]:
    """Return the headers, None for one that is damaged. Remove segments that were never begun, and leave them out."""
    headers: dict[int, SegmentHeader | None] = {}
    for number in numbers:
        path = directory.segment(number)
        with path.open("rb") as file:
            data = file.read(FIRST_RECORD)
            size = os.fstat(file.fileno()).st_size
        try:
            headers[number] = SegmentHeader.decode(data, str(path))
        except UnreadableHeaderError as exc:
            if size <= FIRST_RECORD:
                # A record is written only after the header is synced, so there never was one.
                disk.unlink(path)
                continue
            _log.error("the header of %s is damaged: %s", path, exc)
            headers[number] = None
    return headers


def _index(directory: StoreDirectory, number: int) -> DiskIndex | None:
    path = directory.index(number)
    try:
        index = DiskIndex.load(path)
    except FileNotFoundError:
        return None
    except DamagedIndexError as exc:
        _log.error("%s; it is made anew", exc)
        return None
    if index.facts.number != number:
        _log.error("%s is the index of segment %d; it is made anew", path, index.facts.number)
        return None
    return index


def _unreadable(directory: StoreDirectory, catalog: Catalog, number: int, is_last: bool) -> None:
    path = directory.segment(number)
    if is_last:
        raise CorruptEntryError(
            f"the header of {path} is damaged at offset 0 and it has no index. It is the newest segment, so ledger ids "
            "could be given twice. Restore it from a copy",
            str(path),
            0,
        )
    catalog.note_damage(path, 0)


def _scan(segment: Segment, end: int | None, disk: Disk, catalog: Catalog) -> Scan:
    """Index a segment that has no index file, and cut it behind its last acknowledged byte."""
    size = segment.path.stat().st_size
    scan = index_segment(segment.path, segment.salt, size if end is None else end, sealed=end is not None)
    for offset in scan.damaged:
        _log.error("%s is damaged at offset %d", segment.path, offset)
        catalog.note_damage(segment.path, offset)
    segment.end = scan.end
    descriptor = os.open(segment.path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if size > scan.end:
            _log.info("cut %d bytes of a torn write off %s at offset %d", size - scan.end, segment.path, scan.end)
            disk.truncate(descriptor, scan.end)
        # Readers get these records from now on, so none may vanish with the next crash.
        disk.sync(descriptor)
    finally:
        os.close(descriptor)
    return scan


def _save_index(directory: StoreDirectory, disk: Disk, recovered: Recovered, segment: Segment) -> None:
    catalog = recovered.catalog
    index = segment.index
    assert not isinstance(index, DiskIndex)
    try:
        save_index(directory, catalog, disk, segment, index)
    except OSError as exc:
        _log.warning("cannot write the index of %s: %s; it stays in memory", segment.path, exc)
        recovered.unplaced.append(segment)


def _note_lost_segments(directory: StoreDirectory, catalog: Catalog, numbers: list[int]) -> None:
    for number in sorted(set(directory.indexes()) - set(numbers)):
        _log.error("%s has an index but is not there", directory.segment(number))
        catalog.note_damage(directory.segment(number), 0)
