"""Clients of metadata records: one library or access path each, behind the interface that a load uses.

The records are subscriptions, because those have two parts. Every client stores the same content under the same names
where its library allows it. Each record has a topic of its own, the subscriber `SUBSCRIBER` and the content `DATA`.
"""

from typing import Any, Final, Protocol

from hedwig.metadata.contract.kinds import SUBSCRIPTIONS
from hedwig.metadata.records.packing import part_codec
from hedwig.model import (
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
)

__all__ = ["DATA", "PARTS", "SUBSCRIBER", "RecordClient"]

SUBSCRIBER: Final = SubscriberId(b"subscriber-0000000001")
DATA: Final = SubscriptionData(
    preferences=SubscriptionPreferences(options={"owner": b"benchmark"}, message_bound=1000, message_window_size=100),
    state=SubscriptionState(MessageSeqId(1_000_000)),
)
PARTS: Final[tuple[bytes, ...]] = tuple(part or b"" for part in part_codec(SUBSCRIPTIONS).pack(DATA))
"""The stored preferences and state of every record in HBase."""


class RecordClient(Protocol):
    """Reads and writes records. A version is the value that the client needs for its next compare-and-set."""

    def key(self, topic: bytes) -> Any:
        """Return the key of a topic's record, prepared once for many operations."""
        ...

    async def read(self, key: Any) -> Any:
        """Read a whole record; return its version, None if there is no record."""
        ...

    async def create(self, key: Any) -> Any:
        """Create a record; return its version, None if one exists."""
        ...

    async def update(self, key: Any, version: Any, *, part: bool) -> tuple[bool, Any]:
        """Write a record, or only its state, if it is at `version`.

        Returns: whether the write was done, and the version that the record then has; None if the record is gone.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...
