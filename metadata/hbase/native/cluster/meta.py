"""hbase:meta: the table of the locations of the HBase regions of all other tables.

The row of an HBase region is its name, `table,start key,id.hash.`, and hbase:meta sorts by these parts, not by bytes.
"""

from typing import Final

from google.protobuf.message import DecodeError

from hedwig.clock import Deadline
from hedwig.metadata.hbase.driver import Row
from hedwig.metadata.hbase.native.hbase_pb2 import Column, RegionInfo, Scan
from hedwig.metadata.hbase.native.scanning import row_of, scan_region
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import META_TABLE, NowhereError, Region, Server
from hedwig.outcomes import NotAppliedError

__all__ = ["find_region", "has_table", "list_regions", "meta_region"]

_META_REGION: Final = b"hbase:meta,,1"
_INFO: Final = b"info:regioninfo"
_SERVER: Final = b"info:server"
_STATE: Final = b"info:state"
_COLUMNS: Final = Column(family=b"info", qualifier=[b"regioninfo", b"server", b"state"])
_STATES: Final = Column(family=b"table", qualifier=[b"state"])
_PROTOBUF_MARK: Final = b"PBUF"
_PAGE_ROWS: Final = 1000


def meta_region(server: Server) -> Region:
    """Return hbase:meta, on `server`."""
    return Region(_META_REGION, META_TABLE, b"", b"", server)


async def list_regions(connection: Connection, meta: Region, table: str, deadline: Deadline) -> list[Region]:
    """Return the open regions of `table`, in the order of their rows; none if there is no such table."""
    regions: list[Region] = []
    # A start row with only one comma after the table would skip the first region.
    start, included = f"{table},,".encode(), True
    while True:
        scan = Scan(
            column=[_COLUMNS],
            start_row=start,
            include_start_row=included,
            stop_row=f"{table}-".encode(),
            read_type=Scan.STREAM,
        )
        rows = await scan_region(connection, meta, scan, _PAGE_ROWS, lambda: deadline, row_of)
        regions += [region for row in rows if (region := _region(row, table)) is not None]
        if len(rows) < _PAGE_ROWS:
            return regions
        start, included = rows[-1].key, False


async def find_region(
    connection: Connection, meta: Region, table: str, row: bytes, deadline: Deadline
) -> Region | None:
    """Return the open region of `table` that holds `row`; None if the table has no region at all.

    Raises: NowhereError - the region is being moved, split or merged, or is closed.
    """
    # Scan backwards from a key after every region that begins at or before the row. Of regions with the same start
    # key, the newest comes first.
    scan = Scan(
        column=[_COLUMNS],
        start_row=f"{table},".encode() + row + b",:",
        stop_row=f"{table},,".encode(),
        include_stop_row=True,
        reversed=True,
        read_type=Scan.PREAD,
    )
    rows = await scan_region(connection, meta, scan, 1, lambda: deadline, row_of)
    if not rows:
        return None
    region = _region(rows[0], table)
    if region is None or not region.holds(row):
        raise NowhereError(table)
    return region


async def has_table(connection: Connection, meta: Region, table: str, deadline: Deadline) -> bool:
    """Say whether there is such a table, open or not. Each has a row of its state beside those of its regions.

    The table's descriptor would show it too, but a master gives that only to users who may create tables.
    """
    row = table.encode()
    scan = Scan(column=[_STATES], start_row=row, stop_row=row + b"\0", read_type=Scan.PREAD)
    return bool(await scan_region(connection, meta, scan, 1, lambda: deadline, row_of))


def _region(row: Row, table: str) -> Region | None:
    """Return the region in a row of hbase:meta; None unless it is open."""
    raw, address = row.value(_INFO), row.value(_SERVER)
    if raw is None or address is None or row.value(_STATE) not in (None, b"OPEN"):
        return None
    try:
        info = RegionInfo.FromString(raw.removeprefix(_PROTOBUF_MARK))
        host, _, port = address.decode().rpartition(":")
        server = Server(host, int(port))
    except (DecodeError, ValueError) as exc:
        raise NotAppliedError(f"hbase:meta cannot be read at {row.key!r}: {exc}") from exc
    if info.offline or info.split or info.replica_id:
        return None
    return Region(row.key, table, info.start_key, info.end_key, server)
