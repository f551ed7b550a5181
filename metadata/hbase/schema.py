"""The tables of a namespace: their names, columns and attributes; docs/reference/hbase-layout.md has an example row."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.kinds import BY_SUBSCRIBER, KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind
from hedwig.metadata.hbase.driver import Row, TableSpec
from hedwig.metadata.hbase.keys import split_points

__all__ = ["LAYOUT_COLUMN", "LAYOUT_VERSION_COLUMN", "TableColumns", "Tables", "columns_of", "layout_value"]

LAYOUT_VERSION_COLUMN: Final = b"m:v"
LAYOUT_COLUMN: Final = b"m:d"


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a record: the compared version, then one for each part in the order of its codec."""

    version: bytes
    parts: tuple[bytes, ...]

    @property
    def all(self) -> tuple[bytes, ...]:
        return (self.version, *self.parts)

    @property
    def absent(self) -> bytes:
        """Return a column that no row has. It sorts after every column that drivers read by name."""
        return self.version.partition(b":")[0] + b":~"

    @property
    def families(self) -> list[bytes]:
        return sorted({column.partition(b":")[0] for column in self.all})


_COLUMNS: Final[Mapping[str, TableColumns]] = {
    OWNERSHIP.name: TableColumns(b"o:v", (b"o:d",)),
    PERSISTENCE.name: TableColumns(b"p:v", (b"p:d",)),
    # One version column covers both parts. It is in the family of the part that changes often, so moving a consume
    # pointer writes only the state family.
    SUBSCRIPTIONS.name: TableColumns(b"s:v", (b"p:d", b"s:d")),
    BY_SUBSCRIBER.name: TableColumns(b"i:v", ()),
}

_FAMILY_ATTRIBUTES: Final = {
    "VERSIONS": "1",
    # With it, each read walks through all versions of a cell that are not flushed yet. After 16,000 moves of a consume
    # pointer a read takes over a hundred times as long. It prevents a delete from hiding a later put, and here no
    # delete does.
    "NEW_VERSION_BEHAVIOR": "false",
    "BLOOMFILTER": "ROW",
}
_POINT_READS: Final = {**_FAMILY_ATTRIBUTES, "IN_MEMORY": "true", "BLOCKSIZE": "16384"}
_PREFIX_SCANS: Final = {**_FAMILY_ATTRIBUTES, "BLOCKSIZE": "32768", "DATA_BLOCK_ENCODING": "FAST_DIFF"}
_ENDPOINT: Final = {"coprocessor$1": "|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|536870911|"}
"""HBase's own endpoint for changes of several rows, at the priority of endpoints that users add.

Every server has its class, since hbase:meta needs it.
"""
_SPLIT_POLICY: Final = "org.apache.hadoop.hbase.regionserver.ConstantSizeRegionSplitPolicy"
"""Tables are cut by hash when they are created, so a region splits for its size alone.

HBase's own policy also splits the only region of a table on a server, at 256 MiB.
"""
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_]{1,200}")


def layout_value(row: Row | None) -> bytes | None:
    """Return what a row of the layout table holds; None if there is no such row, or if it holds nothing."""
    return None if row is None else row.value(LAYOUT_COLUMN)


def columns_of(kind: RecordKind[Any]) -> TableColumns:
    """Return the columns of records of `kind`."""
    return _COLUMNS[kind.name]


class Tables:
    """The tables of one namespace."""

    def __init__(self, namespace: str) -> None:
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"{namespace!r} cannot be an HBase namespace; use letters, digits and underscores, "
                "as in hbase+thrift://localhost:9090/hedwig"
            )
        self.namespace = namespace
        self.layout = f"{namespace}:layout"

    def name(self, kind: RecordKind[Any]) -> str:
        """Return the full name of the table of a record kind."""
        return f"{self.namespace}:{kind.name}"

    def specs(self, regions: int) -> list[TableSpec]:
        """Return all tables to create, the layout table last."""
        specs = [self.spec(kind, regions) for kind in KINDS]
        layout = TableSpec(name=self.layout, families=[b"m"], family_attributes=_FAMILY_ATTRIBUTES, table_attributes={})
        return [*specs, layout]

    def spec(self, kind: RecordKind[Any], regions: int) -> TableSpec:
        """Return the table of a record kind."""
        return TableSpec(
            name=self.name(kind),
            families=columns_of(kind).families,
            family_attributes=_PREFIX_SCANS if kind.has_subscriber else _POINT_READS,
            table_attributes={"SPLIT_POLICY": _SPLIT_POLICY, **_ENDPOINT},
            split_points=split_points(regions),
        )
