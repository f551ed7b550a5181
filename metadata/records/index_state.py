"""What a store says of its index of subscriptions by subscriber (hedwig.metadata.calls.indexed_table): a named record.

A process learns it when it opens the store, and then keeps the index or not. So an index is whole only after every
process has opened the store anew, and the subscriptions from before were entered.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, Self

import msgpack

from hedwig.errors import CorruptRecordError, UncertainStateError
from hedwig.metadata.contract.backend import IndexState
from hedwig.metadata.contract.named_records import NamedRecords, replace_surely
from hedwig.metadata.records.packing import damage_of
from hedwig.metadata.records.stamps import make_token

__all__ = ["INDEX_RECORD", "read_index_state", "write_index_state"]

INDEX_RECORD: Final = "subscriber-index"
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class _IndexRecord:
    state: IndexState
    token: bytes

    def encode(self) -> bytes:
        packed: bytes = msgpack.packb({"s": self.state.value, "t": self.token})
        return packed

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        try:
            fields = msgpack.unpackb(raw)
            return cls(IndexState(fields["s"]), bytes(fields["t"]))
        except (ValueError, KeyError, TypeError, msgpack.UnpackException) as exc:
            raise CorruptRecordError(
                f"the record {INDEX_RECORD!r}, which says whether there is an index of subscribers, cannot be read: "
                f"{damage_of(exc)}"
            ) from exc


async def read_index_state(records: NamedRecords) -> IndexState:
    """Return what a store says of its index. Raises: CorruptRecordError, MetadataUnavailableError."""
    raw = await records.read(INDEX_RECORD)
    return IndexState.OFF if raw is None else _IndexRecord.decode(raw).state


async def write_index_state(records: NamedRecords, state: IndexState, random: Random) -> None:
    """Record what is known of the index, whatever the record held. It may be repeated.

    Raises: MetadataUnavailableError, UncertainStateError - not recorded, or not known; others keep changing it.
    """
    for _ in range(_TRIES):
        raw = await records.read(INDEX_RECORD)
        if await replace_surely(records, INDEX_RECORD, raw, _IndexRecord(state, make_token(random)).encode()):
            return
    raise UncertainStateError("other processes keep changing whether there is an index of subscribers; try again")
