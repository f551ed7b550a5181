"""Arrow batches from records in their stored form: whole columns are decoded at once, and no record becomes an object.

This works for nearly all records. It raises UnusualError for a page with anything unusual. That is a field that this
release does not know, a number out of range, or bytes that cannot be read. Then the caller reads the page record by
record (`hedwig.pipeline.frames.schemas`), which handles such records, or reports them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgpack
import pyarrow as pa

from hedwig.errors import HedwigError
from hedwig.metadata.contract.packed import PackedColumns, PackedValues
from hedwig.metadata.records.packing import part_codec
from hedwig.metadata.records.unknown_fields import has_unknown_fields
from hedwig.model import MessageSeqId, RegionSeqId
from hedwig.pipeline.frames.schemas import UNKNOWN_FIELDS, UNREADABLE, arrow_schema, batch_from, native_schema, value_of
from hedwig.pipeline.frames.tables import Table

__all__ = ["UnusualError", "packed_batch"]


class UnusualError(Exception):
    """A page holds something unusual, which need not be an error."""


def packed_batch(
    table: Table, backend: str, page: PackedColumns, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Return a page as `schemas.batch_of` would: all columns of `table`, or some of them and those on request.

    This decodes all parts, also for columns that are not requested. So the same records are readable here and there.

    Raises: UnusualError.
    """
    names = arrow_schema(table).names if columns is None else columns
    try:
        values = _DECODERS[table](page.parts)
        arrays = [_array(field, backend, page, values) for field in native_schema(table, names)]
        return batch_from(table, names, arrays)
    except UnusualError:
        raise
    except _OUT_OF_THE_ORDINARY as exc:
        raise UnusualError(str(exc)) from exc


_OUT_OF_THE_ORDINARY: Final = (
    ArithmeticError,
    AttributeError,
    HedwigError,
    LookupError,
    TypeError,
    ValueError,
    msgpack.UnpackException,
    pa.ArrowException,
)
"""What decoding raises for anything unusual, since it expects the usual. Arrow's OverflowError is an ArithmeticError,
and its ArrowInvalid a ValueError."""


def _array(field: pa.Field, backend: str, page: PackedColumns, values: Mapping[str, pa.Array]) -> pa.Array:
    match field.name:
        case "topic":
            return _as_array(page.topics)
        case "subscriber":
            return _as_array(page.subscribers)
        case "version":
            return _as_array(page.versions)
        case "backend":
            return pa.repeat(pa.scalar(backend, field.type), len(page))
        case UNKNOWN_FIELDS.name:
            return pa.repeat(pa.scalar(False, field.type), len(page))
        case UNREADABLE.name:
            return pa.nulls(len(page), field.type)
        case name:
            return values[name]


def _as_array(values: PackedValues) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.binary())


# ------------------------------------------------------------------------------------------ the columns between these


def _ledgers(parts: Sequence[PackedValues]) -> dict[str, pa.Array]:
    return {"ranges": _distinct(parts[0], _ranges)}


def _topics(parts: Sequence[PackedValues]) -> dict[str, pa.Array]:
    ranges = _distinct(parts[0], _ranges)
    return {"ledgers": ranges.value_lengths().cast(pa.int32())}


def _subscriptions(parts: Sequence[PackedValues]) -> dict[str, pa.Array]:
    preferences, states = parts
    return {"preferences": _distinct(preferences, _preferences), "state": _distinct(states, _states)}


def _owners(parts: Sequence[PackedValues]) -> dict[str, pa.Array]:
    # A few hubs own all topics.
    hubs, which = _which(parts[0])
    records = [part_codec(Table.OWNERS.kind).unpack((raw,)) for raw in hubs]
    _check_known(records)
    columns = {}
    for name in ("host", "port", "ssl_port", "epoch", "log"):
        field = native_schema(Table.OWNERS, [name]).field(name)
        values = pa.array([value_of(Table.OWNERS, name)(record) for record in records], field.type)
        columns[name] = values if which is None else values.take(which)
    return columns


_DECODERS: Final[Mapping[Table, Callable[[Sequence[PackedValues]], dict[str, pa.Array]]]] = {
    Table.TOPICS: _topics,
    Table.LEDGERS: _ledgers,
    Table.SUBSCRIPTIONS: _subscriptions,
    Table.OWNERS: _owners,
}

# --------------------------------------------------------------------------------------------------------------- parts


def _which(raws: PackedValues) -> tuple[Sequence[bytes | None], pa.Array | None]:
    """Return the distinct values, and the index of the value at each position; None for the indices if all differ."""
    if isinstance(raws, pa.Array):
        encoded = raws.dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) == len(raws):
            return raws.to_pylist(), None
        return encoded.dictionary.to_pylist(), encoded.indices
    indices = {raw: index for index, raw in enumerate(dict.fromkeys(raws))}
    if len(indices) == len(raws):
        return raws, None
    return list(indices), pa.array([indices[raw] for raw in raws], pa.int32())


def _distinct(raws: PackedValues, decode: Callable[[Sequence[bytes | None]], pa.Array]) -> pa.Array:
    """Return a decoded column. Decode each distinct value once: many records are equal except for their names."""
    distinct, which = _which(raws)
    values = decode(distinct)
    return values if which is None else values.take(which)


def _ranges(raws: Sequence[bytes | None]) -> pa.Array:
    kind = native_schema(Table.LEDGERS, ["ranges"]).field("ranges").type
    offsets = [0]
    items: list[Any] = []
    for raw in raws:
        items += _listed(_only(raw, "r"))
        offsets.append(len(items))
    ids, starts = [item["i"] for item in items], [item.get("a") for item in items]
    ends = [item.get("z") for item in items]
    if sum(map(len, items)) != 3 * len(items) - starts.count(None) - ends.count(None):
        raise UnusualError("a range has fields that are not known")
    parts = kind.value_type
    values = pa.StructArray.from_arrays(
        [_numbers(ids), _numbers(starts, optional=True), _seq_ids(ends, parts.field("end").type)], fields=list(parts)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _states(raws: Sequence[bytes | None]) -> pa.Array:
    kind = native_schema(Table.SUBSCRIPTIONS, ["state"]).field("state").type
    consumed = [_only(raw, "c") if raw else None for raw in raws]
    inner = _seq_ids(consumed, kind.field("consumed").type)
    return pa.StructArray.from_arrays([inner], fields=list(kind), mask=_absent(consumed))


def _preferences(raws: Sequence[bytes | None]) -> pa.Array:
    kind = native_schema(Table.SUBSCRIPTIONS, ["preferences"]).field("preferences").type
    records = [part_codec(Table.SUBSCRIPTIONS.kind).unpack((raw, None)) for raw in raws]
    _check_known(records)
    return pa.array([value_of(Table.SUBSCRIPTIONS, "preferences")(record) for record in records], kind)


def _seq_ids(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of message ids: each a number, a list of a number and pairs for other regions, or None."""
    local, remote = values, None
    if list in set(map(type, values)):
        ids = [value if value is None else _seq_id(value) for value in values]
        local = [None if each is None else each.local for each in ids]
        remote = [
            [] if each is None else [{"region": item.region, "seq_id": item.seq_id} for item in each.remote]
            for each in ids
        ]
    inner = kind.field("remote").type
    if remote is None:
        nothing = pa.array([], inner.value_type)
        remotes = pa.ListArray.from_arrays(pa.array([0] * (len(values) + 1), pa.int32()), nothing, type=inner)
    else:
        remotes = pa.array(remote, inner)
    return pa.StructArray.from_arrays(
        [_numbers(local, optional=True), remotes], fields=list(kind), mask=_absent(values)
    )


def _seq_id(value: Any) -> MessageSeqId:
    """Return the message id of a number or a list. Its constructor checks every part."""
    if type(value) is int:
        return MessageSeqId(value)
    local, *remote = _listed(value)
    pairs = [_listed(each) for each in remote]
    if not all(type(region) is bytes for region, _ in pairs):
        raise UnusualError("something else stands where a region is expected")
    return MessageSeqId(local, tuple(RegionSeqId(region, seq_id) for region, seq_id in pairs))


def _numbers(values: Sequence[Any], *, optional: bool = False) -> pa.Array:
    """Return a column of unsigned 64-bit numbers. Raises UnusualError or an error of Arrow for any other value."""
    kinds = set(map(type, values))
    if not kinds <= ({int, type(None)} if optional else {int}):
        raise UnusualError("something else stands where a number is expected")
    return pa.array(values, pa.uint64())


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise UnusualError("something else stands where a list is expected")
    return value


def _only(raw: bytes | None, name: str) -> Any:
    """Return the one field of a record. Raises UnusualError if there are others."""
    fields = msgpack.unpackb(raw)
    if len(fields) != 1 or (value := fields[name]) is None:
        raise UnusualError("there are fields that are not known")
    return value


def _absent(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _check_known(records: Sequence[Any]) -> None:
    if any(map(has_unknown_fields, records)):
        raise UnusualError("there are fields that are not known")
