"""The drivers of records by name, each with the function that opens its client."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from hedwig.benchmarks.drivers.records.record_clients import RecordClient
from hedwig.benchmarks.errors import BenchmarkError

__all__ = ["DRIVERS", "open_client"]


async def _native(location: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.hbase_records import open_native

    return await open_native(location["url"])


async def _gateway(location: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.hbase_records import open_gateway

    return await open_gateway(location["url"])


async def _managers(location: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.manager_records import ManagerRecords

    return await ManagerRecords.open(location["url"])


async def _happybase(location: Mapping[str, str]) -> RecordClient:
    try:
        from hedwig.benchmarks.drivers.records.happybase_records import HappybaseRecords
    except ModuleNotFoundError as exc:
        raise BenchmarkError(f"there is no package {exc.name}; install it with: pip install happybase") from exc
    return HappybaseRecords(location["address"], location["table"])


async def _plain_zookeeper(location: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.znode_records import ZnodeRecords

    return await ZnodeRecords.open(location["url"])


_OPENERS: Final[Mapping[str, Callable[[Mapping[str, str]], Awaitable[RecordClient]]]] = {
    "native": _native,
    "native-managers": _managers,
    "gateway": _gateway,
    "gateway-managers": _managers,
    "happybase": _happybase,
    "zookeeper-guarded": _managers,
    "zookeeper-plain": _plain_zookeeper,
    "sqlite": _managers,
}
DRIVERS: Final = ("java", *_OPENERS)
"""Names of the drivers that can be measured; the first is a program of its own, see java_program.py."""


async def open_client(driver: str, location: Mapping[str, str]) -> RecordClient:
    """Open one of the clients. Raises BenchmarkError - it is not installed; and the errors of the client's library."""
    return await _OPENERS[driver](location)
