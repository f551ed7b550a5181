"""Records that cannot be read, as rows with their key and the reason."""

from collections.abc import Sequence

import pyarrow as pa

from hedwig.metadata import RecordKey
from hedwig.pipeline.frames.schemas import UNREADABLE, all_columns
from hedwig.pipeline.frames.tables import Table

__all__ = ["unreadable_batch"]


def unreadable_batch(
    table: Table, backend: str, records: Sequence[tuple[RecordKey, str]], columns: Sequence[str]
) -> pa.RecordBatch:
    """Return records that cannot be read, each with the reason, as a batch with some columns of `table`.

    All columns may be null, and all except the key, the backend and the reason are. `backend` is the scheme of their
    store.
    """
    known: dict[str, Sequence[object]] = {
        "topic": [key.topic for key, _ in records],
        "subscriber": [key.subscriber for key, _ in records],
        "backend": [backend] * len(records),
        UNREADABLE.name: [why for _, why in records],
    }
    fields = [all_columns(table).field(name).with_nullable(True) for name in columns]
    arrays = [pa.array(known.get(field.name, [None] * len(records)), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
