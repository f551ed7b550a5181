"""Records as rows: one compared column, the stamp, and a column for each part of the record.

A version is a stamp behind a letter that tells it from the versions of other backends. A row whose stamp cannot be read
holds a record that cannot be read. A row without a stamp holds no record.
"""

from typing import Final, Generic, TypeVar

from hedwig.errors import CorruptRecordError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import Outcome, RecordKey, outcome_of
from hedwig.metadata.hbase.driver import Row
from hedwig.metadata.hbase.keys import split_row
from hedwig.metadata.hbase.schema import columns_of
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.records.stamps import Stamp
from hedwig.versions import Version, Versioned

__all__ = ["VERSION_TAG", "RowCodec", "stored_stamp", "version_of"]

R = TypeVar("R")

VERSION_TAG: Final = b"h"
"""The letter before a stamp in a version."""


class RowCodec(Generic[R]):
    """How the records of one kind stand in rows."""

    def __init__(self, kind: RecordKind[R]) -> None:
        self.kind = kind
        self.columns = columns_of(kind)
        self._codec = part_codec(kind)

    def pack(self, key: RecordKey, record: R) -> tuple[bytes | None, ...]:
        """Return the parts of a record as they are stored. Raises InvalidArgumentError, RecordTooLargeError."""
        self.kind.check(key)
        parts = self._codec.pack(record)
        self.kind.check_size(key, *parts)
        return parts

    def values(self, parts: tuple[bytes | None, ...], *, keep_absent: bool) -> dict[bytes, bytes]:
        """Return the cells to write. With `keep_absent` an absent part stays as it is, else it is emptied."""
        pairs = zip(self.columns.parts, parts, strict=True)
        return {column: part or b"" for column, part in pairs if part is not None or not keep_absent}

    def emptied(self) -> dict[bytes, bytes]:
        """Return the cells to write, besides the stamp, for a record that is deleted."""
        return dict.fromkeys(self.columns.parts, b"")

    def compared(self, row: Row | None) -> bytes | None:
        """Return the stamp of a row as it is stored, or None if it has none."""
        return None if row is None else row.value(self.columns.version)

    def stamp(self, key: RecordKey, row: Row | None) -> Stamp | None:
        """Return the stamp of a row, or None if it has none. Raises CorruptRecordError - the stamp cannot be read."""
        raw = self.compared(row)
        if raw is None:
            return None
        try:
            return Stamp.decode(raw)
        except ValueError as exc:
            raise CorruptRecordError(f"the version of the {self.kind.noun} of {key} cannot be read: {exc}") from exc

    def versioned(self, key: RecordKey, row: Row | None, stamp: Stamp) -> Versioned[R]:
        """Return the record in a row.

        Raises: CorruptRecordError - the parts hold no record. The error has the version.
        """
        assert row is not None, "a stamp comes from a row"
        values = [row.value(column) for column in self.columns.parts]
        try:
            return Versioned(self._codec.read(self.kind.noun, key, values), version_of(stamp))
        except CorruptRecordError as exc:
            exc.version = version_of(stamp)
            raise

    def read(self, row: Row) -> tuple[RecordKey, Outcome[R]]:
        """Return the key of the record in a row of a scan, and the record or the error that it cannot be read."""
        topic, subscriber = split_row(row.key)
        key = RecordKey(topic, subscriber if self.kind.has_subscriber else None)

        def decode() -> Versioned[R]:
            stamp = self.stamp(key, row)
            assert stamp is not None, "the rows of a scan have a version"
            return self.versioned(key, row, stamp)

        return key, outcome_of(decode)


def stored_stamp(version: Version) -> bytes:
    """Return the stored stamp in a version of this backend."""
    return version.raw[1:]


def version_of(stamp: Stamp) -> Version:
    """Return the version of a stamp."""
    return Version(VERSION_TAG + stamp.encode())
