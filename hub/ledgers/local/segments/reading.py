"""Find entries and read them. Every function blocks; any thread may call them."""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from zlib import crc32

from hedwig.errors import CorruptEntryError, LedgerStoreUnavailableError, NoSuchLedgerError
from hedwig.hub.ledgers.local.segments.catalog import Catalog, Segment
from hedwig.hub.ledgers.local.segments.index import Holding, MemoryIndex, SegmentIndex
from hedwig.hub.ledgers.local.segments.index_file import DamagedIndexError
from hedwig.hub.ledgers.local.segments.records import RECORD_HEADER_BYTES, SegmentRecordKind, parse_record_header

__all__ = ["LedgerEnd", "Reader"]

T = TypeVar("T")

_log = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
_HINTS_MAX: Final = 4096
_ENTRIES_MAX: Final = 4096
_GAP_BYTES_MAX: Final = 16 << 10
"""A gap of at most this many bytes between two entries is read along, not skipped by a read for each of them."""
_SPAN_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """The last entry id of a ledger, -1 for none; the kind of its seal, None without one."""

    last_entry_id: int
    sealed_by: SegmentRecordKind | None


@dataclass(frozen=True, slots=True)
class _Location:
    entry_id: int
    segment: Segment
    offset: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class _Held:
    segment: Segment
    holding: Holding


class Reader:
    """Reads through the indexes of a catalog. `rebuild` makes a damaged index file again, or raises OSError."""

    def __init__(self, catalog: Catalog, rebuild: Callable[[Segment], None]) -> None:
        self._catalog = catalog
        self._rebuild = rebuild
        self._hints: OrderedDict[int, tuple[int, tuple[_Held, ...]]] = OrderedDict()

    def state(self, ledger_id: int) -> LedgerEnd:
        """Return the ledger's last entry and seal. Raises: NoSuchLedgerError; CorruptEntryError - its end is lost."""
        return self._while_segments_go(ledger_id, lambda: self._state(ledger_id))

    def read(self, ledger_id: int, first: int, entries_max: int, bytes_max: int) -> list[bytes]:
        """Return payloads as LedgerStore.read does."""
        most = min(entries_max, _ENTRIES_MAX)
        return self._while_segments_go(ledger_id, lambda: self._read(ledger_id, first, most, bytes_max))

    def bytes_from(self, ledger_id: int, first: int, enough: int) -> int:
        """Return how many bytes the payloads from `first` on have, as LedgerStore.bytes_from does."""
        return self._while_segments_go(ledger_id, lambda: self._bytes_from(ledger_id, first, enough))

    def holds(self, ledger_id: int, segment: Segment) -> bool:
        """Return whether any segment but `segment` has a record of the ledger. The ledger may be deleted."""
        with self._catalog.lock:
            others = [*self._catalog.unplaced.values(), *self._catalog.candidates(ledger_id)]
            if any(isinstance(o.index, MemoryIndex) and o.index.holding(ledger_id) for o in others if o is not segment):
                return True
        return any(self._ask(other, _holding, ledger_id) for other in others if other is not segment)

    def _while_segments_go(self, ledger_id: int, work: Callable[[], T]) -> T:
        """Run `work`, and repeat it if a segment was rewritten and removed meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                return work()
            except FileNotFoundError as exc:
                gone = exc
            except OSError as exc:
                raise LedgerStoreUnavailableError(f"cannot read ledger {ledger_id}: {exc}") from exc
        name = str(gone.filename)
        raise CorruptEntryError(
            f"ledger {ledger_id} needs the file {name}, which is not there; restore it from a copy", name, 0
        ) from gone

    def _state(self, ledger_id: int) -> LedgerEnd:
        held, _ = self._look(ledger_id, 0, 0)
        return _state_of(held)

    def _bytes_from(self, ledger_id: int, first: int, enough: int) -> int:
        size = 0
        while True:
            held, locations = self._locate(ledger_id, first, _ENTRIES_MAX)
            behind = first + _ENTRIES_MAX
            size += sum(each.payload_bytes for entry_id, each in locations.items() if first <= entry_id < behind)
            if size > enough or behind > _state_of(held).last_entry_id:
                return size
            first = behind

    def _locate(self, ledger_id: int, first: int, most: int) -> tuple[list[_Held], dict[int, _Location]]:
        """Return the segments that hold the ledger, and the locations of `most` entries from `first` on, or more."""
        held, locations = self._look(ledger_id, first, most)
        for one in sorted(held, key=lambda one: one.holding.first):
            if isinstance(one.segment.index, MemoryIndex) or not one.holding.first <= first + most - 1:
                continue
            if one.holding.last >= first:
                self._add(locations, one.segment, self._ask(one.segment, _rows, ledger_id, first, most))
        return held, locations

    def _read(self, ledger_id: int, first: int, most: int, bytes_max: int) -> list[bytes]:
        held, locations = self._locate(ledger_id, first, most)
        run: list[_Location] = []
        size = 0
        while len(run) < most and (location := locations.get(first + len(run))) is not None:
            size += location.payload_bytes
            if run and size > bytes_max:
                break
            run.append(location)
        if not run:
            # Use the state as looked up above, not the current one: an entry appended meanwhile is not lost.
            self._explain_absence(ledger_id, first, _state_of(held))
        return self._payloads(ledger_id, run)

    def _look(self, ledger_id: int, first: int, most: int) -> tuple[list[_Held], dict[int, _Location]]:
        """Return the segments that hold the ledger. Also return the locations of its entries from indexes in memory.

        Raises: NoSuchLedgerError.
        """
        catalog = self._catalog
        locations: dict[int, _Location] = {}
        with catalog.lock:
            if not catalog.exists(ledger_id):
                raise NoSuchLedgerError(f"there is no ledger {ledger_id}")
            seen, known = self._hints.get(ledger_id, (0, ()))
            until = catalog.placings
            held = [one for one in known if catalog.placed.get(one.segment.number) is one.segment]
            unknown = [segment for segment in catalog.candidates(ledger_id) if segment.placed > seen]
            young: list[_Held] = []
            for segment in catalog.unplaced.values():
                holding = segment.index.holding(ledger_id)
                if holding is not None:
                    young.append(_Held(segment, holding))
                    self._add(locations, segment, segment.index.rows(ledger_id, first, most))
        for segment in unknown:
            holding = self._ask(segment, _holding, ledger_id)
            if holding is not None:
                held.append(_Held(segment, holding))
        with catalog.lock:
            self._hints[ledger_id] = until, tuple(held)
            self._hints.move_to_end(ledger_id)
            while len(self._hints) > _HINTS_MAX:
                self._hints.popitem(last=False)
        return held + young, locations

    def _ask(self, segment: Segment, question: Callable[..., T], *arguments: int) -> T:
        """Ask the index of a segment a question. If the index is damaged, rebuild it and ask again."""
        try:
            return question(segment.index, *arguments)
        except DamagedIndexError as exc:
            _log.error("%s; it is made anew", exc)
            self._rebuild(segment)
            return question(segment.index, *arguments)

    def _add(self, locations: dict[int, _Location], segment: Segment, rows: Sequence[tuple[int, int]]) -> None:
        for key, value in rows:
            locations.setdefault(key - 1, _Location(key - 1, segment, value >> 32, value & 0xFFFFFFFF))

    def _explain_absence(self, ledger_id: int, first: int, state: LedgerEnd) -> None:
        """Return if the ledger ends before `first`. Raises: CorruptEntryError - it does not, so the entry is lost."""
        if first > state.last_entry_id:
            return
        with self._catalog.lock:
            damaged = self._catalog.damaged[:3]
        where = "; ".join(f"unreadable bytes in {path} at offset {offset}" for path, offset in damaged)
        path, offset = damaged[0] if damaged else ("", 0)
        raise CorruptEntryError(
            f"entry {first} of ledger {ledger_id} is missing ({where or 'no file has it'}); restore the "
            "file from a copy, or skip the entry",
            str(path),
            offset,
        )

    def _payloads(self, ledger_id: int, run: list[_Location]) -> list[bytes]:
        """Return the payloads up to the first damaged one. Raises: CorruptEntryError - the first one is damaged."""
        payloads: dict[int, bytes] = {}
        damage: CorruptEntryError | None = None
        for span in _spans(run):
            first, last = span[0], span[-1]
            size = last.offset + RECORD_HEADER_BYTES + last.payload_bytes - first.offset
            data = _pread(first.segment, first.offset, size)
            for location in span:
                payload = _payload(data, location.offset - first.offset, ledger_id, location)
                if payload is not None:
                    payloads[location.entry_id] = payload
                    continue
                with self._catalog.lock:
                    self._catalog.note_damage(location.segment.path, location.offset)
                if damage is None or location.entry_id == run[0].entry_id:
                    damage = CorruptEntryError(
                        f"entry {location.entry_id} of ledger {ledger_id} is damaged in {location.segment.path} at "
                        f"offset {location.offset}; restore the file from a copy, or skip the entry",
                        str(location.segment.path),
                        location.offset,
                    )
        whole: list[bytes] = []
        for location in run:
            if location.entry_id not in payloads:
                break
            whole.append(payloads[location.entry_id])
        if damage is not None and not whole:
            raise damage
        return whole


def _state_of(held: Sequence[_Held]) -> LedgerEnd:
    last = max((one.holding.last for one in held), default=-1)
    for one in held:
        if one.holding.sealed is not None:
            return LedgerEnd(max(one.holding.sealed, last), one.holding.sealed_by)
    return LedgerEnd(last, None)


def _holding(index: SegmentIndex, ledger_id: int) -> Holding | None:
    return index.holding(ledger_id)


def _rows(index: SegmentIndex, ledger_id: int, first: int, most: int) -> list[tuple[int, int]]:
    return index.rows(ledger_id, first, most)


def _spans(run: list[_Location]) -> list[list[_Location]]:
    """Group locations that are near one another in one file, so that one read serves them."""
    spans: list[list[_Location]] = []
    for location in sorted(run, key=lambda location: (location.segment.number, location.offset)):
        if spans:
            first, last = spans[-1][0], spans[-1][-1]
            gap = location.offset - last.offset - last.payload_bytes
            near = location.segment is last.segment and gap <= _GAP_BYTES_MAX
            if near and location.offset + location.payload_bytes - first.offset <= _SPAN_BYTES_MAX:
                spans[-1].append(location)
                continue
        spans.append([location])
    return spans


def _pread(segment: Segment, offset: int, size: int) -> bytes:
    """Return bytes of the segment; fewer if the file was cut off."""
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(descriptor, size, offset)
        while len(data) < size and (more := os.pread(descriptor, size - len(data), offset + len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _payload(data: bytes, at: int, ledger_id: int, location: _Location) -> bytes | None:
    """Return the payload of the record at `data[at:]`, None if that is not the whole record of `location`."""
    if len(data) < at + RECORD_HEADER_BYTES + location.payload_bytes:
        return None
    fields = parse_record_header(data, at, location.segment.salt, location.offset)
    if fields is None:
        return None
    kind, length, checksum, _, stored_ledger_id, entry = fields
    expected = SegmentRecordKind.ENTRY, location.payload_bytes, ledger_id, location.entry_id
    if (kind, length, stored_ledger_id, entry) != expected:
        return None
    payload = data[at + RECORD_HEADER_BYTES : at + RECORD_HEADER_BYTES + length]
    return payload if crc32(payload) == checksum else None
