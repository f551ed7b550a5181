"""Servers, and the HBase regions of tables on them."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hedwig.metadata.hbase.native.hbase_pb2 import TableName
from hedwig.metadata.hbase.native.wire.codec import delimited
from hedwig.outcomes import NotAppliedError

__all__ = ["META_TABLE", "NowhereError", "Region", "Server", "table_name"]

META_TABLE: Final = "hbase:meta"


class NowhereError(NotAppliedError):
    """The HBase region of a row is open nowhere at the moment. Other regions may be open."""

    def __init__(self, table: str) -> None:
        super().__init__(f"the HBase region of a row of {table} is open nowhere at the moment")


class Server(NamedTuple):
    """The address at which a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """An HBase region as read from hbase:meta: rows from `start` (included) to `end` (excluded; empty: no end).

    `name` is the full name that the server knows. Each read of hbase:meta makes new objects.
    """

    name: bytes
    table: str
    start: bytes
    end: bytes
    server: Server
    encoded: bytes = field(init=False)
    """The region as the first field of a request."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoded", delimited(b"\x0a", b"\x08\x01" + delimited(b"\x12", self.name)))

    def holds(self, row: bytes) -> bool:
        """Say whether `row` is between its bounds."""
        return self.start <= row and (not self.end or row < self.end)


def table_name(table: str) -> TableName:
    """Return the name of a table in HBase's form, with the namespace apart."""
    namespace, colon, name = table.partition(":")
    if not colon:
        namespace, name = "default", table
    return TableName(namespace=namespace.encode(), qualifier=name.encode())
