"""The columns of the tables, and how records become Arrow batches; `input_rows` turns batches into records again.

Every table begins with `topic` and ends with where a row comes from. `version` is the record's version in its store,
and `backend` the scheme of that store's URL. A version has a meaning only in its own store.

Numbers that the wire format holds in 64 bits without a sign (ids of ledgers and of messages, epochs) are decimal(20,0).
Spark has no such integer, and a hub's epoch or another system's ledger id may use the highest bit. The code makes and
reads them as unsigned 64-bit numbers, and casts whole columns. A bigint would be no quicker to read. It would save a
little elsewhere. For a million rows with one such number, writing Parquet would take 2.4 s, not 3.2 s, and adding them
up 0.4 s less. Reading these rows from a store takes 20 s.

Only whole columns are declared as never null, and nothing inside them is. Where a nested value is absent, Arrow keeps
nulls for all of its parts, and refuses a schema that says otherwise.

Options are an array of pairs, in the order of their names, and no map: Spark can neither compare maps nor group by
them.

A record may carry fields of a newer minor format. They have no column, so a copy made from the columns lacks them. A
reader that asks for the column UNKNOWN_FIELDS learns whether a record has such fields.

A record that cannot be read has only a key to show. A reader that passes over such records, and asks for the column
UNREADABLE, gets a row for each. There that column says why, and all other columns except the key are null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.records.unknown_fields import has_unknown_fields
from hedwig.model import (
    LedgerRange,
    MessageSeqId,
    SubscriptionPreferences,
    SubscriptionState,
)
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import Versioned

__all__ = [
    "ADDED_COLUMNS",
    "UNKNOWN_FIELDS",
    "UNREADABLE",
    "all_columns",
    "arrow_schema",
    "batch_from",
    "batch_of",
    "key_columns",
    "native_schema",
    "optional_columns",
    "provenance_columns",
    "value_of",
]

UNKNOWN_FIELDS: Final = pa.field("unknown_fields", pa.bool_(), nullable=False)
"""A column of every table, read only on request: whether the record has fields that have no column."""
UNREADABLE: Final = pa.field("unreadable", pa.string())
"""Another column on request: why the record cannot be read; null if it can."""
ADDED_COLUMNS: Final = ("log",)
"""Columns of `owners` that earlier releases did not have. In their files it is null."""
_ON_REQUEST: Final = {field.name: field for field in (UNKNOWN_FIELDS, UNREADABLE)}

_Json: TypeAlias = Any
"""What pyarrow makes of a nested value: dictionaries, lists, numbers, bytes, text, None."""


def _needed(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _list_of(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", item))


def _seq_id(number: pa.DataType) -> pa.DataType:
    remote = pa.struct([("region", pa.binary()), ("seq_id", number)])
    return pa.struct([("local", number), ("remote", _list_of(remote))])


def _range(number: pa.DataType) -> pa.DataType:
    return pa.struct([("ledger_id", number), ("start", number), ("end", _seq_id(number))])


def _preferences() -> pa.DataType:
    option = pa.struct([("name", pa.string()), ("value", pa.binary())])
    return pa.struct(
        [
            ("options", _list_of(option)),
            ("message_bound", pa.int64()),
            ("message_filter", pa.string()),
            ("message_window_size", pa.int64()),
        ]
    )


def _values(table: Table, number: pa.DataType) -> list[pa.Field]:
    """Return the columns between the key and the provenance; `number` is the type of unsigned 64-bit numbers."""
    match table:
        case Table.TOPICS:
            return [_needed("ledgers", pa.int32())]
        case Table.OWNERS:
            return [
                _needed("host", pa.string()),
                _needed("port", pa.int32()),
                pa.field("ssl_port", pa.int32()),
                _needed("epoch", number),
                pa.field("log", number),
            ]
        case Table.LEDGERS:
            return [_needed("ranges", _list_of(_range(number)))]
        case Table.SUBSCRIPTIONS:
            state = pa.struct([("consumed", _seq_id(number))])
            return [pa.field("preferences", _preferences()), pa.field("state", state)]


def _schema(table: Table, number: pa.DataType) -> pa.Schema:
    key = [_needed(name, pa.binary()) for name in key_columns(table)]
    provenance = [_needed("version", pa.binary()), _needed("backend", pa.string())]
    return pa.schema([*key, *_values(table, number), *provenance])


def key_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns that identify a row of `table`."""
    return ("topic", "subscriber") if table.kind.has_subscriber else ("topic",)


def provenance_columns() -> tuple[str, ...]:
    """Return the names of the columns that say where a row comes from. They are no part of the record."""
    return ("version", "backend")


def optional_columns(table: Table) -> frozenset[str]:
    """Return the names of the columns that a frame to write may lack. A frame that is read has all of them."""
    more = {Table.TOPICS: ("ledgers",), Table.OWNERS: ADDED_COLUMNS}.get(table, ())
    return frozenset((*provenance_columns(), *more))


def arrow_schema(table: Table) -> pa.Schema:
    """Return the columns of `table`."""
    return _SCHEMAS[table]


def all_columns(table: Table) -> pa.Schema:
    """Return the columns of `table`, and the columns on request."""
    return pa.schema([*_SCHEMAS[table], *_ON_REQUEST.values()])


_SCHEMAS: Final = {table: _schema(table, pa.decimal128(20, 0)) for table in Table}
"""The largest number of 64 bits has 20 digits."""
_NATIVE: Final = {table: _schema(table, pa.uint64()) for table in Table}
"""The same with unsigned 64-bit numbers, which Python and Arrow exchange quickly."""


def batch_of(
    table: Table,
    backend: str,
    records: Sequence[tuple[RecordKey, Versioned[Any]]],
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """Return records of one kind as a batch with the schema of `table`, or some of its columns and those on request.

    `backend` is the scheme of their store.
    """
    names = arrow_schema(table).names if columns is None else columns
    native = native_schema(table, names)
    arrays = [pa.array(_column(table, name, backend, records), native.field(name).type) for name in names]
    return batch_from(table, names, arrays)


def native_schema(table: Table, names: Sequence[str] | None = None) -> pa.Schema:
    """Return the columns of `table`, or those in `names`, with unsigned 64-bit numbers in place of decimals."""
    return _NATIVE[table] if names is None else pa.schema([_field(_NATIVE[table], name) for name in names])


def batch_from(table: Table, names: Sequence[str], arrays: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return a batch with the schema of `table`, from columns with the types of `native_schema`."""
    wanted = pa.schema([_field(arrow_schema(table), name) for name in names])
    return pa.RecordBatch.from_arrays(arrays, schema=native_schema(table, names)).cast(wanted)


def value_of(table: Table, name: str) -> Callable[[Any], Any]:
    """Return the function that makes the value of a column from a record."""
    return _COLUMNS[table][name]


def _field(schema: pa.Schema, name: str) -> pa.Field:
    return _ON_REQUEST[name] if name in _ON_REQUEST else schema.field(name)


def _column(
    table: Table, name: str, backend: str, records: Sequence[tuple[RecordKey, Versioned[Any]]]
) -> Sequence[_Json]:
    match name:
        case "topic":
            return [key.topic for key, _ in records]
        case "subscriber":
            return [key.subscriber for key, _ in records]
        case "version":
            return [stored.version.raw for _, stored in records]
        case "backend":
            return [backend] * len(records)
        case UNKNOWN_FIELDS.name:
            return [has_unknown_fields(stored.value) for _, stored in records]
        case UNREADABLE.name:
            return [None] * len(records)
        case _:
            value = value_of(table, name)
            return [value(stored.value) for _, stored in records]


def _state_fields(state: SubscriptionState | None) -> _Json:
    return None if state is None else {"consumed": _seq_fields(state.consumed)}


def _range_fields(item: LedgerRange) -> _Json:
    end = None if item.end is None else _seq_fields(item.end)
    return {"ledger_id": item.ledger_id, "start": item.start, "end": end}


def _seq_fields(seq_id: MessageSeqId) -> _Json:
    remote = [{"region": item.region, "seq_id": item.seq_id} for item in seq_id.remote]
    return {"local": seq_id.local, "remote": remote}


def _preference_fields(preferences: SubscriptionPreferences | None) -> _Json:
    if preferences is None:
        return None
    return {
        "options": [{"name": name, "value": value} for name, value in sorted(preferences.options.items())],
        "message_bound": preferences.message_bound,
        "message_filter": preferences.message_filter,
        "message_window_size": preferences.message_window_size,
    }


_COLUMNS: Final[Mapping[Table, Mapping[str, Callable[[Any], _Json]]]] = {
    Table.TOPICS: {"ledgers": lambda record: len(record.ranges)},
    Table.OWNERS: {
        "host": lambda hub: hub.host,
        "port": lambda hub: hub.port,
        "ssl_port": lambda hub: hub.ssl_port,
        "epoch": lambda hub: hub.epoch,
        "log": lambda hub: hub.log,
    },
    Table.LEDGERS: {"ranges": lambda record: [_range_fields(item) for item in record.ranges]},
    Table.SUBSCRIPTIONS: {
        "preferences": lambda data: _preference_fields(data.preferences),
        "state": lambda data: _state_fields(data.state),
    },
}
