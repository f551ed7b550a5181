"""Records as they are stored, column by column, for callers that want a table and no objects.

Decoding records into objects costs several times as much as reading them. In a scan of millions of records it takes
most of the time. So a backend with records in our own form (`packing`) may hand on the stored bytes, and the caller
decodes one column at a time.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from hedwig.metadata.contract.key_ranges import KeyRange
from hedwig.metadata.contract.scan import ScannedRecord

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PackedColumns", "PackedPage", "PackedValues", "ScansPacked"]

PackedValues: TypeAlias = "Sequence[bytes | None] | pa.Array"
"""A column: a list, or an array of Arrow's type binary if the backend gets one without reading each value."""


@dataclass(frozen=True, slots=True)
class PackedColumns:
    """Records of one kind: columns of one length, in the order of the scan.

    `subscribers` is empty for kinds that have none. `versions` holds the values of `Version.raw`. `parts` has one
    column for each part of the kind's codec, in the codec's form. An absent part is None or empty.
    """

    topics: PackedValues
    subscribers: PackedValues
    versions: PackedValues
    parts: Sequence[PackedValues]

    def __len__(self) -> int:
        return len(self.topics)


@dataclass(frozen=True, slots=True)
class PackedPage:
    """A page of a scan. `records` decodes it into objects, as other scans do, and reports unreadable records.

    `columns` is None if a version is malformed. The content of the parts is unchecked.
    """

    columns: PackedColumns | None
    records: Callable[[], list[ScannedRecord]]


@runtime_checkable
class ScansPacked(Protocol):
    """A table that can return its records as stored."""

    def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        """Iterate over pages of the records in a range, as `range_records`. Close it if you leave it early."""
        ...
