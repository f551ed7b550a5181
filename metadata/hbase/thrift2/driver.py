"""The driver for HBase's Thrift2 gateway.

The gateway hides one thing that a compare-and-set needs. After a lost answer from the region server, the gateway itself
repeats a mutation. It then reports `False` for a write that its first try did apply. So each conditional write also
leaves a receipt, in the same atomic mutation. This is a cell of its own, named after the write's token. After a `False`
the driver reads the receipt. If it exists, the write was applied. If not, the write was not applied, and never will be,
since its condition cannot become true again. Receipts expire by themselves, long after every call that could read them.
"""

import asyncio
import re
import struct
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from hedwig.clock import Deadline
from hedwig.errors import LayoutMissingError, MetadataError
from hedwig.metadata.calls.attempts import Refusal
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.hbase.driver import (
    LONG_AGO_MS,
    TIME_MAX_MS,
    Cell,
    ConditionalPut,
    Row,
    RowValues,
    ScanRange,
    TableDescription,
    TableSpec,
)
from hedwig.metadata.hbase.durability import Durability
from hedwig.metadata.hbase.thrift2.connection import GATEWAY, ThriftConnection
from hedwig.metadata.hbase.thrift2.pool import ConnectionPool
from hedwig.outcomes import ForbiddenError, NotAppliedError, OutcomeUnknownError

__all__ = ["Thrift2Driver"]

T = TypeVar("T")

_EQUAL: Final = 2
_DELETE_COLUMNS: Final = 1
_READ_POINTWISE: Final = 3
_READ_AS_IT_GOES: Final = 1
"""The server reads by position at first, and as a stream once it has read much."""
_FEW_ROWS: Final = 100

_RECEIPT_QUALIFIER: Final = b"~"
"""This sorts after every column that drivers read by name, so reads never step over receipts.

Streams of whole tables (`native/streams.py`) also read receipts until these expire.
"""

_TTL_ATTRIBUTE: Final = b"_ttl"
_ASCII_PREFIX: Final = re.compile(rb"[\x01-\x7f]*")
_REFUSED_FOR_GOOD: Final = re.compile(r"NoSuchColumnFamily|KeyValue size too large|Row length|FailedSanityCheck")

_FORBIDDEN: Final = re.compile(r"AccessDeniedException: (?P<why>.*?)(?= at org\.|$)")
_DENIED_USER: Final = re.compile(r"user(?:=| ')(?P<user>[^,']+)")


class Thrift2Driver:
    """An HBaseDriver over a pool of gateway connections."""

    def __init__(
        self,
        host: str,
        port: int,
        options: StoreOptions,
        *,
        connections: int = 16,
        framed: bool = False,
        receipt_ttl_s: float = 600.0,
        durability: Durability = Durability.CLUSTER,
    ) -> None:
        self._durability = durability
        self._address = f"{host}:{port}"
        # A receipt must outlive every attempt that could read it, including those that the gateway makes by itself.
        self._receipt_ttl = struct.pack(">q", int(max(receipt_ttl_s, 2 * options.operation_timeout_s) * 1000))
        self._pool = ConnectionPool(
            lambda: ThriftConnection(host, port, framed=framed),
            connections=connections,
            waiting_max=options.in_flight_max,
        )

    async def get(self, table: str, row: bytes, columns: Sequence[bytes], deadline: Deadline) -> Row | None:
        return await self._run(table, deadline, lambda call: _get(call, table, row, columns))

    async def put_if(self, put: ConditionalPut, deadline: Deadline) -> Refusal[Row] | None:
        receipt = _receipt_column(put)
        mutations = [
            GATEWAY.TMutation(put=_put(put.row, put.values, self._durability)),
            GATEWAY.TMutation(
                put=_put(put.row, {receipt: b"1"}, self._durability, attributes={_TTL_ATTRIBUTE: self._receipt_ttl})
            ),
        ]

        def work(call: _Call) -> Refusal[Row] | None:
            if _check_and_mutate(call, put.table, put.row, put.column, put.expected, mutations):
                return None
            row = _get(call, put.table, put.row, (*put.show, receipt))
            if row is not None and row.value(receipt) is not None:
                return None
            return Refusal(row, proven=True)

        return await self._run(put.table, deadline, work)

    async def get_all(
        self, table: str, rows: Sequence[bytes], columns: Sequence[bytes], deadline: Deadline
    ) -> list[Row | Exception | None]:
        return await _results_of([self.get(table, row, columns, deadline) for row in rows])

    async def put_all(
        self, puts: Sequence[ConditionalPut], deadline: Deadline
    ) -> list[Refusal[Row] | Exception | None]:
        return await _results_of([self.put_if(put, deadline) for put in puts])

    async def delete_if(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes,
        cells: Mapping[bytes, int],
        deadline: Deadline,
    ) -> bool:
        mutations = [self._delete(row, cells)]
        return await self._run(
            table, deadline, lambda call: _check_and_mutate(call, table, row, column, expected, mutations)
        )

    async def scan(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[Row]:
        scan = GATEWAY.TScan(
            startRow=rows.start,
            stopRow=rows.stop,
            columns=[_column(name) for name in rows.columns],
            caching=limit,
            timeRange=GATEWAY.TTimeRange(minStamp=rows.since_ms, maxStamp=TIME_MAX_MS) if rows.since_ms else None,
            filterString=_filter_string(rows),
            readType=_READ_POINTWISE if limit <= _FEW_ROWS else _READ_AS_IT_GOES,
            limit=limit,
        )
        results: list[Any] = await self._run(
            table, deadline, lambda call: call("getScannerResults", table.encode(), scan, limit)
        )
        return [_row(result) for result in results]

    async def scan_values(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[RowValues]:
        scanned = await self.scan(table, rows, limit, deadline)
        return [(row.key, tuple(row.value(column) for column in rows.columns)) for row in scanned]

    def stream(self, table: str, rows: ScanRange, page_rows: int) -> None:
        """Return None. A gateway sends cells in its own form, and each page is a call of its own."""

    async def region_starts(self, table: str, deadline: Deadline) -> list[bytes]:
        locations: list[Any] = await self._run(
            table, deadline, lambda call: call("getAllRegionLocations", table.encode())
        )
        return sorted(_bytes(at.regionInfo.startKey) or b"" for at in locations)

    async def wait_for_writes(self, table: str, column: bytes, deadline: Deadline) -> None:
        def work(call: _Call) -> None:
            for at in call("getAllRegionLocations", table.encode()):
                row = _bytes(at.regionInfo.startKey) or b"\x00"
                _check_and_mutate(call, table, row, column, None, [self._delete(row, {column: LONG_AGO_MS})])

        await self._run(table, deadline, work)

    async def flush_table(self, table: str, deadline: Deadline) -> None:
        """Do nothing, since gateways have no such call."""

    async def create_namespace(self, namespace: str, deadline: Deadline) -> None:
        def work(call: _Call) -> None:
            if namespace not in call("listNamespaces"):
                call("createNamespace", GATEWAY.TNamespaceDescriptor(name=namespace))

        await self._run(None, deadline, work, namespace)

    async def create_table(self, spec: TableSpec, deadline: Deadline) -> None:
        families = [
            GATEWAY.TColumnFamilyDescriptor(name=family, attributes=_encoded(spec.family_attributes))
            for family in spec.families
        ]
        table = GATEWAY.TTableDescriptor(
            tableName=_table_name(spec.name), columns=families, attributes=_encoded(spec.table_attributes)
        )

        def work(call: _Call) -> None:
            if not call("tableExists", table.tableName):
                call("createTable", table, list(spec.split_points))

        await self._run(None, deadline, work, spec.name)

    async def drop_table(self, table: str, deadline: Deadline) -> None:
        name = _table_name(table)

        def work(call: _Call) -> None:
            if call("tableExists", name):
                if call("isTableEnabled", name):
                    call("disableTable", name)
                call("deleteTable", name)

        await self._run(None, deadline, work, table)

    async def table_exists(self, table: str, deadline: Deadline) -> bool:
        name = _table_name(table)
        return await self._run(None, deadline, lambda call: bool(call("tableExists", name)), table)

    async def describe_table(self, table: str, deadline: Deadline) -> TableDescription:
        def work(call: _Call) -> TableDescription:
            descriptor = call("getTableDescriptor", _table_name(table))
            locations = call("getAllRegionLocations", table.encode())
            return TableDescription(
                name=table,
                families={_text(family.name): _decoded(family.attributes or {}) for family in descriptor.columns},
                region_servers=[f"{at.serverName.hostName}:{at.serverName.port}" for at in locations],
            )

        return await self._run(table, deadline, work)

    async def describe(self, deadline: Deadline) -> Mapping[str, str]:
        cluster = await self._run(None, deadline, lambda call: call("getClusterId"))
        return {"access": f"Thrift2 gateway at {self._address}", "HBase cluster": cluster}

    async def close(self) -> None:
        await self._pool.close()

    def _delete(self, row: bytes, cells: Mapping[bytes, int]) -> Any:
        """Return a mutation that deletes, of each column, the version at a timestamp (ms) and older ones."""
        columns = [_column(name, timestamp=timestamp_ms) for name, timestamp_ms in cells.items()]
        return GATEWAY.TMutation(
            deleteSingle=GATEWAY.TDelete(
                row=row, columns=columns, deleteType=_DELETE_COLUMNS, durability=int(self._durability)
            )
        )

    async def _run(
        self, table: str | None, deadline: Deadline, work: "Callable[[_Call], T]", about: str | None = None
    ) -> T:
        """Return what `work` returns.

        `work` needs `table` to exist. Without a table, `about` is the name of the table or namespace that it is about.
        """

        def in_thread(connection: ThriftConnection) -> T:
            def call(method: str, *arguments: Any) -> Any:
                return connection.call(deadline, method, *arguments)

            try:
                return work(call)
            except GATEWAY.TIOError as exc:
                raise _translated(exc, call, table, about) from exc

        return await self._pool.run(in_thread, deadline)


_Call = Callable[..., Any]


async def _results_of(works: "Sequence[Coroutine[Any, Any, T]]") -> list[T | Exception]:
    """Return the result of each of `works`, or the exception that it raises."""
    results = []
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
        results.append(result)
    return results


def _translated(error: Any, call: _Call, table: str | None, about: str | None) -> Exception:
    """Return the exception for the gateway's error.

    Its text is that of the Java exception without the class name. So this asks the gateway whether the table exists.
    """
    whole = " ".join(str(error.message).split())
    text = whole[:300]
    denied = _FORBIDDEN.search(whole)
    if denied is not None:
        return _forbidden(denied["why"], (table or about or "").partition(":")[0])
    if error.canRetry is False and table is not None and _is_missing(call, table):
        namespace = table.partition(":")[0]
        return LayoutMissingError(
            f"HBase has no table {table}; make the tables of {namespace} with: "
            f"hedwig-admin metadata format --metadata hbase+thrift://HOST:PORT/{namespace}"
        )
    if _REFUSED_FOR_GOOD.search(text):
        return MetadataError(f"HBase refuses the request: {text}")
    return OutcomeUnknownError(f"the gateway reports: {text}")


def _forbidden(why: str, namespace: str) -> ForbiddenError:
    """Return the error for a right that the gateway's user lacks, with the command that grants the right."""
    user = _DENIED_USER.search(why)
    is_about_tables = re.search("action=(CREATE|ADMIN)", why)
    rights, before = (
        ("RWC", f" (after create_namespace {namespace!r}, if there is none)") if is_about_tables else ("RW", "")
    )
    return ForbiddenError(
        f"the gateway reports: {why[:300]}; in the shell of HBase: grant {user['user'] if user else 'USER'!r}, "
        f"{rights!r}, '@{namespace}'{before}: that is the user of the gateway"
    )


def _is_missing(call: _Call, table: str) -> bool:
    try:
        return not call("tableExists", _table_name(table))
    except (GATEWAY.TIOError, NotAppliedError, OutcomeUnknownError):
        return False


def _get(call: _Call, table: str, row: bytes, columns: Sequence[bytes]) -> Row | None:
    get = GATEWAY.TGet(row=row, columns=[_column(name) for name in columns])
    result = call("get", table.encode(), get)
    return _row(result) if result.row is not None else None


def _check_and_mutate(
    call: _Call, table: str, row: bytes, column: bytes, expected: bytes | None, mutations: list[Any]
) -> bool:
    family, _, qualifier = column.partition(b":")
    changes = GATEWAY.TRowMutations(row=row, mutations=mutations)
    # An empty value compares equal to an absent cell. Without a value the gateway would fail with an internal error.
    return bool(call("checkAndMutate", table.encode(), row, family, qualifier, _EQUAL, expected or b"", changes))


def _put(
    row: bytes, values: Mapping[bytes, bytes], durability: Durability, attributes: dict[bytes, bytes] | None = None
) -> Any:
    cells = []
    for name, value in values.items():
        family, _, qualifier = name.partition(b":")
        cells.append(GATEWAY.TColumnValue(family=family, qualifier=qualifier, value=value))
    return GATEWAY.TPut(row=row, columnValues=cells, attributes=attributes, durability=int(durability))


def _receipt_column(put: ConditionalPut) -> bytes:
    return put.column.partition(b":")[0] + b":" + _RECEIPT_QUALIFIER + put.token


def _column(name: bytes, timestamp: int | None = None) -> Any:
    family, _, qualifier = name.partition(b":")
    return GATEWAY.TColumn(family=family, qualifier=qualifier, timestamp=timestamp)


def _row(result: Any) -> Row:
    cells = {
        _bytes(cell.family) + b":" + _bytes(cell.qualifier): Cell(_bytes(cell.value), cell.timestamp)
        for cell in result.columnValues
    }
    return Row(_bytes(result.row), cells)


def _filter_string(rows: ScanRange) -> str | None:
    if rows.marked is None:
        return None
    column, letter = rows.marked
    family, _, qualifier = column.decode().partition(":")
    marked = f"SingleColumnValueFilter('{family}', '{qualifier}', =, 'binaryprefix:{letter.decode()}', true, true)"
    # The server decodes a key as text before it matches, so it can match only the leading ASCII part of a prefix.
    match = _ASCII_PREFIX.match(rows.name_prefix)
    if match is None or not match[0]:
        return marked
    pattern = "".join(f"\\x{byte:02x}" for byte in match[0])
    return f"{marked} AND RowFilter(=, 'regexstring:^....{pattern}')"


def _table_name(table: str) -> Any:
    namespace, _, name = table.partition(":")
    return GATEWAY.TTableName(ns=namespace.encode(), qualifier=name.encode())


def _encoded(attributes: Mapping[str, str]) -> dict[bytes, bytes]:
    return {key.encode(): value.encode() for key, value in attributes.items()}


def _decoded(attributes: Mapping[Any, Any]) -> dict[str, str]:
    return {_text(key): _text(value) for key, value in attributes.items()}


def _bytes(value: Any) -> bytes:
    """Return a binary field as bytes. The library returns text if the bytes are valid UTF-8."""
    return value.encode() if isinstance(value, str) else value


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
