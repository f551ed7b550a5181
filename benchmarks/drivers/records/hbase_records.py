"""Records in HBase through our drivers, below the managers: bare conditional puts of the same cells as Java's."""

from collections.abc import Mapping
from typing import Any, Final

from hedwig.benchmarks.drivers.records.record_clients import PARTS, SUBSCRIBER, RecordClient
from hedwig.clock import Deadline
from hedwig.metadata.contract.backend import StoreOptions
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.hbase.driver import ConditionalPut, HBaseDriver, Row
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.schema import Tables, columns_of
from hedwig.metadata.records.stamps import Stamp, make_token

__all__ = ["DriverRecords", "open_gateway", "open_native", "records_table"]

_GATEWAY_PORT: Final = 9090
_COLUMNS: Final = columns_of(SUBSCRIPTIONS)
_VERSION: Final = _COLUMNS.version
_WHOLE: Final[Mapping[bytes, bytes]] = dict(zip(_COLUMNS.parts, PARTS, strict=True))
_PART: Final[Mapping[bytes, bytes]] = {_COLUMNS.parts[-1]: PARTS[-1]}


def records_table(url: str) -> str:
    """Return the full name of the table that holds the records of an HBase URL."""
    return Tables(MetadataUrl.parse(url).path.strip("/")).name(SUBSCRIPTIONS)


async def open_native(url: str) -> RecordClient:
    """Return records through HBase's own RPC."""
    options = StoreOptions()
    return DriverRecords(await connect(MetadataUrl.parse(url), options), records_table(url), options)


async def open_gateway(url: str) -> RecordClient:
    """Return records through the Thrift2 gateway."""
    # Imported here, since only this function needs the package of the extra `thrift`.
    from hedwig.metadata.hbase.thrift2 import Thrift2Driver

    options = StoreOptions()
    ((host, port),) = MetadataUrl.parse(url).endpoints(_GATEWAY_PORT)
    return DriverRecords(Thrift2Driver(host, port, options), records_table(url), options)


class DriverRecords:
    """A RecordClient over one HBaseDriver. A version is the record's stamp."""

    def __init__(self, driver: HBaseDriver, table: str, options: StoreOptions) -> None:
        self._driver = driver
        self._table = table
        self._options = options

    def key(self, topic: bytes) -> bytes:
        return topic_key(topic) + SUBSCRIBER

    async def read(self, key: bytes) -> Stamp | None:
        return _stamp(await self._driver.get(self._table, key, _COLUMNS.all, self._deadline()))

    async def create(self, key: bytes) -> Stamp | None:
        stamp = Stamp.first(self._options.clock, make_token(self._options.random))
        refusal = await self._driver.put_if(self._put(key, None, stamp, _WHOLE), self._deadline())
        return stamp if refusal is None else None

    async def update(self, key: bytes, version: Stamp, *, part: bool) -> tuple[bool, Stamp | None]:
        stamp = version.next(make_token(self._options.random))
        put = self._put(key, version.encode(), stamp, _PART if part else _WHOLE)
        refusal = await self._driver.put_if(put, self._deadline())
        return (True, stamp) if refusal is None else (False, _stamp(refusal.current))

    async def close(self) -> None:
        await self._driver.close()

    def _put(self, row: bytes, expected: bytes | None, stamp: Stamp, values: Mapping[bytes, bytes]) -> ConditionalPut:
        return ConditionalPut(
            table=self._table,
            row=row,
            column=_VERSION,
            expected=expected,
            values={_VERSION: stamp.encode(), **values},
            token=stamp.token,
            show=_COLUMNS.all,
        )

    def _deadline(self) -> Deadline:
        return Deadline.after(self._options.clock, self._options.operation_timeout_s)


def _stamp(row: Row | None) -> Stamp | None:
    raw: Any = None if row is None else row.value(_VERSION)
    return None if raw is None else Stamp.decode(raw)
