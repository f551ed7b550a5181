"""The export file: records of any backend as a portable, compressed stream that any later release reads back.

    gzip of:  MAGIC, then frames, each four bytes (big-endian) of length and a msgpack map with one key:
        {"header": {"major", "minor", "url", "kind", "store_id", "at", "prefix", "owners"}}      first
        {"records": [[letter, topic, subscriber or nil, [part, …], {slot: [encoding, payload]}?], …]}  any number
        {"logs": [record of a shared log, …]}                                                    any number
        {"end": {"counts": {kind: number}, "logs": number, "sha256": of all before this frame}}  last, and nothing after

gzip, since every system can open it and its module is in the standard library. At the sizes of records, the store is
the slower end. A part is what SQLite and HBase store (`packing`), so the file keeps fields that only a newer minor
format knows. A record read from ZooKeeper may carry fields of another encoding. They travel beside the parts, each in
the slot of the message it belongs to. Versions are left out, since a record's version is its store's own.

The records of the shared logs that owners and ranges name follow these. They were read later, so they have all segments
that these need. Software that knows no shared logs would leave them out. So a file with them has major format 2.

The size of a frame is bounded, which bounds memory, also for a file with a false length. The checksum is at the end, so
a reader that must not act on a damaged file reads it to the end first (`verify`).
"""

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

import msgpack

from hedwig.errors import CorruptRecordError, ExportFileError, InvalidArgumentError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.references import logs_named_by
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.records.unknown_fields import foreign_fields, with_foreign_fields
from hedwig.model import Topic
from hedwig.names import as_subscriber, as_topic

__all__ = ["ExportEnd", "ExportHeader", "ExportReader", "ExportWriter", "PlainRecord", "Verified", "verify"]

MAGIC: Final = b"HEDWIG-METADATA\n"
MAJOR: Final = 2
MINOR: Final = 0
_WITHOUT_LOGS: Final = 1
"""The major format of a file without shared logs."""

_LEVEL: Final = 6
_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
"""Makes zlib write the header and the end of gzip."""
_FRAME_BYTES_SOFT: Final = 1 << 20
_FRAME_BYTES_MAX: Final = 64 << 20
_LETTERS: Final[Mapping[str, str]] = {OWNERSHIP.name: "o", PERSISTENCE.name: "p", SUBSCRIPTIONS.name: "s"}
_KINDS: Final[Mapping[str, RecordKind[Any]]] = {_LETTERS[kind.name]: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record without its version: what is the same in every store that holds it."""

    kind: RecordKind[Any]
    key: RecordKey
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportHeader:
    """Where the records of a file come from: backend, id and URL of the store, when (ISO 8601), and which of them."""

    url: str
    kind: str
    store_id: str
    at: str
    prefix: bytes = b""
    owners: bool = True
    major: int = _WITHOUT_LOGS
    minor: int = MINOR

    def with_logs(self) -> Self:
        """Return the header of a file whose records may name shared logs."""
        return replace(self, major=MAJOR)

    @property
    def may_have_logs(self) -> bool:
        """Whether records of the file may name shared logs."""
        return self.major > _WITHOUT_LOGS


@dataclass(frozen=True, slots=True)
class ExportEnd:
    """What a whole file holds: records by the name of their kind, and the checksum of all before the end.

    `logs` is the number of shared logs.
    """

    counts: Mapping[str, int]
    sha256: bytes
    logs: int = 0

    @property
    def records(self) -> int:
        return sum(self.counts.values())


class ExportWriter:
    """Writes one export to `raw`. Calls block for as long as compressing and the disk take."""

    def __init__(self, raw: BinaryIO, header: ExportHeader) -> None:
        self._raw = raw
        # Not a GzipFile: one that is not closed after an error warns of it later. The header has no name and no time,
        # so equal records make equal files.
        self._compressor = zlib.compressobj(_LEVEL, wbits=_GZIP_WBITS)
        self._hash = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._logs = 0
        self.named_logs: set[int] = set()
        """The shared logs that the records name."""
        self._write(MAGIC)
        self._frame({"header": asdict(header)})

    def write(self, records: Sequence[PlainRecord]) -> None:
        """Append records."""
        packed: list[list[Any]] = []
        size = 0
        for record in records:
            fields = _fields(record)
            self.named_logs.update(logs_named_by(record.value))
            packed.append(fields)
            size += len(record.key.topic) + sum(len(part) for part in fields[3] if part is not None)
            if size >= _FRAME_BYTES_SOFT:
                self._frame({"records": packed})
                packed, size = [], 0
        if packed:
            self._frame({"records": packed})
        self._counts.update(record.kind.name for record in records)

    def write_logs(self, logs: Sequence[LogRecord]) -> None:
        """Append the records of shared logs, which were read after all records that name them."""
        for log in logs:
            self._frame({"logs": [log.encode()]})
        self._logs += len(logs)

    def finish(self) -> ExportEnd:
        """Append the end, after which the file is whole; `raw` stays open."""
        end = ExportEnd({kind.name: self._counts[kind.name] for kind in KINDS}, self._hash.digest(), self._logs)
        self._frame({"end": {"counts": dict(end.counts), "logs": end.logs, "sha256": end.sha256}})
        self._raw.write(self._compressor.flush())
        return end

    def _frame(self, content: Mapping[str, Any]) -> None:
        payload = msgpack.packb(content)
        self._write(len(payload).to_bytes(4, "big") + payload)

    def _write(self, data: bytes) -> None:
        self._hash.update(data)
        self._raw.write(self._compressor.compress(data))


@dataclass(slots=True)
class _Progress:
    """How far a file has been read: what is in the checksum, and how many records of each kind."""

    hash: Any = field(default_factory=hashlib.sha256)
    counts: Counter[str] = field(default_factory=Counter)


class ExportReader:
    """Reads one export, frame by frame. `header` is there at once, `end` and all `logs` once everything has been read.

    Raises, in all: ExportFileError - the file is no export, is cut short or damaged, or of a newer major format;
        OSError - it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        self._raw = path.open("rb")
        try:
            self._stream = gzip.GzipFile(fileobj=self._raw, mode="rb")
            self._progress = _Progress()
            self.end: ExportEnd | None = None
            self.logs: list[LogRecord] = []
            self.header = self._read_header()
        except BaseException:
            self._raw.close()
            raise

    @property
    def read_bytes(self) -> int:
        """Return how much of the file has been read."""
        return self._raw.tell()

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._stream.close()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> list[PlainRecord] | None:
        """Return the next records, at least one; None at the end of a file that is whole and undamaged."""
        while self.end is None:
            checksum = self._progress.hash.digest()
            content = self._frame()
            if "end" in content:
                self._finish(content["end"], checksum)
            elif rows := content.get("records"):
                # A newer minor format may add frames with another key, which older code skips.
                records = self._records(rows)
                self._progress.counts.update(record.kind.name for record in records)
                return records
            elif logs := content.get("logs"):
                self.logs += self._decoded(logs)
        return None

    def _read_header(self) -> ExportHeader:
        foreign = f"{self._name} is no export of Hedwig's metadata; give a file that hedwig-admin metadata export wrote"
        try:
            magic = self._stream.read(len(MAGIC))
        except gzip.BadGzipFile as exc:
            raise ExportFileError(foreign) from exc
        except (EOFError, zlib.error) as exc:
            raise self._broken("it is cut short or damaged at its very beginning") from exc
        if magic != MAGIC:
            raise ExportFileError(foreign)
        self._progress.hash.update(magic)
        fields = self._frame().get("header")
        if not isinstance(fields, dict) or not isinstance(fields.get("major"), int):
            raise self._broken("it has no header")
        if fields["major"] > MAJOR:
            raise ExportFileError(
                f"{self._name} has format {fields['major']}.{fields.get('minor')}, and this software reads format "
                f"{MAJOR}: import it with the release that wrote it, or a later one"
            )
        known = {name: fields[name] for name in ExportHeader.__dataclass_fields__ if name in fields}
        try:
            return ExportHeader(**known)
        except TypeError as exc:
            raise self._broken("its header is not whole") from exc

    def _finish(self, fields: Any, checksum: bytes) -> None:
        try:
            end = ExportEnd(dict(fields["counts"]), bytes(fields["sha256"]), int(fields.get("logs", 0)))
            counts = dict(self._progress.counts)
            rest = self._stream.read(1)
        except (KeyError, TypeError, ValueError) as exc:
            raise self._broken("its end cannot be read") from exc
        except (gzip.BadGzipFile, EOFError, zlib.error) as exc:
            raise self._broken("it is cut short or damaged behind its end") from exc
        if end.sha256 != checksum:
            raise self._broken("its checksum does not match")
        if {kind: number for kind, number in end.counts.items() if number} != counts or end.logs != len(self.logs):
            raise self._broken("it does not hold as many records as it says")
        if rest:
            raise self._broken("something follows its end")
        self.end = end

    def _frame(self) -> dict[str, Any]:
        try:
            prefix = self._stream.read(4)
            length = int.from_bytes(prefix, "big")
            payload = self._stream.read(length) if len(prefix) == 4 and length <= _FRAME_BYTES_MAX else b""
        except EOFError as exc:
            raise self._broken("it is cut short") from exc
        except (gzip.BadGzipFile, zlib.error) as exc:
            raise self._broken("it is damaged") from exc
        if not payload or len(payload) < length:
            raise self._broken("it is damaged" if length > _FRAME_BYTES_MAX else "it is cut short")
        self._progress.hash.update(prefix + payload)
        try:
            content = msgpack.unpackb(payload, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException) as exc:
            raise self._broken("it is damaged") from exc
        if not isinstance(content, dict):
            raise self._broken("it is damaged")
        return content

    def _records(self, rows: Any) -> list[PlainRecord]:
        try:
            return [_record(*row) for row in rows]
        except (TypeError, ValueError, KeyError, AttributeError, CorruptRecordError, InvalidArgumentError) as exc:
            raise self._broken(f"a record of it cannot be read ({exc})") from exc

    def _decoded(self, logs: Any) -> list[LogRecord]:
        try:
            return [LogRecord.decode(bytes(each)) for each in logs]
        except (TypeError, ValueError, CorruptRecordError) as exc:
            raise self._broken(f"a log of it cannot be read ({exc})") from exc

    def _broken(self, what: str) -> ExportFileError:
        read = sum(self._progress.counts.values())
        return ExportFileError(f"{self._name} is not whole: {what}, after {read:,} records; get a whole copy of it")


class Verified(NamedTuple):
    """What a whole file says of itself, and the shared logs that the wanted records of it name."""

    header: ExportHeader
    end: ExportEnd
    logs: Sequence[LogRecord]


def verify(path: Path, wants: Callable[[PlainRecord], bool] = lambda _: True) -> Verified:
    """Read a file to its end. `wants` says which records are wanted. Raises as ExportReader."""
    named: set[int] = set()
    with ExportReader(path) as reader:
        while (records := reader.read()) is not None:
            for each in filter(wants, records):
                named.update(logs_named_by(each.value))
        assert reader.end is not None, "a file that was read to its end has one"
        return Verified(reader.header, reader.end, [each for each in reader.logs if each.number in named])


def _fields(record: PlainRecord) -> list[Any]:
    parts = part_codec(record.kind).pack(record.value)
    fields: list[Any] = [_LETTERS[record.kind.name], record.key.topic, record.key.subscriber, list(parts)]
    foreign = foreign_fields(record.value)
    return [*fields, {slot: [each.encoding, each.payload] for slot, each in foreign.items()}] if foreign else fields


def _record(
    letter: str, topic: bytes, subscriber: bytes | None, parts: Sequence[bytes | None], foreign: Any = None, *_: Any
) -> PlainRecord:
    kind = _KINDS[letter]
    key = RecordKey(Topic(as_topic(topic)), None if subscriber is None else as_subscriber(subscriber))
    kind.check(key)
    value = part_codec(kind).read(kind.noun, key, parts)
    return PlainRecord(kind, key, with_foreign_fields(value, foreign) if foreign else value)
