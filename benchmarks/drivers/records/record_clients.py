"""Clients of metadata records: one library or access path each, behind what a load asks of it.

The records are subscriptions, because those have two parts. Every client stores the same content under the same names,
as far as it can: `DATA`, to the subscriber `SUBSCRIBER` of a topic for each record.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.records.packing import part_codec
from hedwig.model import (
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
)

__all__ = ["DATA", "DRIVERS", "PARTS", "SUBSCRIBER", "RecordClient", "open_client"]

SUBSCRIBER: Final = SubscriberId(b"subscriber-0000000001")
DATA: Final = SubscriptionData(
    preferences=SubscriptionPreferences(options={"owner": b"benchmark"}, message_bound=1000, message_window_size=100),
    state=SubscriptionState(MessageSeqId(1_000_000)),
)
PARTS: Final[tuple[bytes, ...]] = tuple(part or b"" for part in part_codec(SUBSCRIPTIONS).pack(DATA))
"""The stored preferences and state of every record in HBase."""


class RecordClient(Protocol):
    """Reads and writes records. A version is whatever the client needs for its next compare-and-set."""

    def key(self, topic: bytes) -> Any:
        """Return what names the record of a topic, prepared once for many operations."""
        ...

    async def read(self, key: Any) -> Any:
        """Return the version of a record, None if there is none. The whole record is read."""
        ...

    async def create(self, key: Any) -> Any:
        """Create a record; return its version, None if one exists."""
        ...

    async def update(self, key: Any, version: Any, *, part: bool) -> tuple[bool, Any]:
        """Write a record, or only its state, if it is at `version`.

        Returns: whether it was done, and the version that the record then has; None if it is gone.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


async def _native(place: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.hbase_records import open_native

    return await open_native(place["url"])


async def _gateway(place: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.hbase_records import open_gateway

    return await open_gateway(place["url"])


async def _managers(place: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.manager_records import ManagerRecords

    return await ManagerRecords.open(place["url"])


async def _happybase(place: Mapping[str, str]) -> RecordClient:
    try:
        from hedwig.benchmarks.drivers.records.happybase_records import HappybaseRecords
    except ModuleNotFoundError as exc:
        raise BenchmarkError(f"there is no package {exc.name}; install it with: pip install happybase") from exc
    return HappybaseRecords(place["address"], place["table"])


async def _plain_zookeeper(place: Mapping[str, str]) -> RecordClient:
    from hedwig.benchmarks.drivers.records.znode_records import ZnodeRecords

    return await ZnodeRecords.open(place["url"])


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
"""Names of what can be measured; the first is a program of its own, see java_program.py."""


async def open_client(driver: str, place: Mapping[str, str]) -> RecordClient:
    """Open one of the clients. Raises BenchmarkError - it is not installed; and whatever the client's library does."""
    return await _OPENERS[driver](place)
