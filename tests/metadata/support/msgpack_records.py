"""Our msgpack records as a newer minor format would write them. The probes of SQLite and HBase share them."""

from typing import Any, Final

import msgpack

__all__ = ["FIELD", "added_to_record", "unknown_in_record"]

FIELD: Final = "newer"
_NESTED: Final = "r"  # the ledger ranges of a persistence record are maps themselves


def added_to_record(raw: bytes, number: int) -> bytes:
    """Return the record `raw` with one more field in its map and in every map inside its list of ledger ranges."""
    fields = msgpack.unpackb(raw)
    for offset, item in enumerate(fields.get(_NESTED, ())):
        item[FIELD] = [number, offset]
    fields[FIELD] = {"number": number, "nested": [b"\x00", None, 1.5]}
    packed: bytes = msgpack.packb(fields)
    return packed


def unknown_in_record(raw: bytes) -> list[Any]:
    """Return the added fields of a record, its own first, then those of its ledger ranges in order."""
    fields = msgpack.unpackb(raw)
    return [fields.get(FIELD), *(item.get(FIELD) for item in fields.get(_NESTED, ()))]
