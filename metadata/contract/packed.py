"""Records as they are stored, column by column, for those who want a table and would take objects apart at once.

To make objects of records costs several times what reading them does; over millions of records that is what a scan
takes. So a backend whose records are in our own form (`packing`) may hand on what it read, and who reads it
decodes a column at a time.
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
"""A column: a list, or an array of Arrow's type binary where a backend comes by one without a look at each value."""


@dataclass(frozen=True, slots=True)
class PackedColumns:
    """Records of one kind: columns of one length, in the order of the scan.

    `subscribers` is empty for kinds that have none. `versions` are what `Version.raw` is. `parts` has one column for
    each part of the kind's codec, in its form; a part that is absent is None or empty.
    """

    topics: PackedValues
    subscribers: PackedValues
    versions: PackedValues
    parts: Sequence[PackedValues]

    def __len__(self) -> int:
        return len(self.topics)


@dataclass(frozen=True, slots=True)
class PackedPage:
    """A page of a scan. `records` makes objects of it, as other scans do, and says what cannot be read.

    `columns` is None where a version is not what it should be. What is in the parts nobody has looked at.
    """

    columns: PackedColumns | None
    records: Callable[[], list[ScannedRecord]]


@runtime_checkable
class ScansPacked(Protocol):
    """A table that hands on what it has read of its records."""

    def packed_range(self, keys: KeyRange) -> AsyncGenerator[PackedPage, None]:
        """Iterate over pages of the records in a range, as `range_records`. Close it if it is left early."""
        ...
