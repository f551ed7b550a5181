"""The rows of a batch as records to write.

Wherever possible this converts whole columns. In millions of rows most values occur many times, or are null. Converting
the nested value of each row would cost more than storing it.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hedwig.errors import HedwigError, InvalidArgumentError
from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.pipeline.frames.schemas import key_columns, native_schema, optional_columns
from hedwig.pipeline.frames.tables import Table
from hedwig.versions import Version

__all__ = ["InputRow", "rows_of"]

_Json: TypeAlias = Any
"""What pyarrow makes of a nested value: dictionaries, lists, numbers, bytes, text, None."""

_Made: TypeAlias = Any
"""A record, or a part of one, or the HedwigError that says why none can be made."""

_Columns: TypeAlias = Mapping[str, pa.Array]
"""The columns that a batch has. Numbers are unsigned 64-bit integers, or decimals if some are out of range."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of a frame as a record to write, or the reason why it is none.

    `version` is the record's version in its source, None if the frame has none. Without `error`, `key` and `record` are
    set.
    """

    key: RecordKey | None = None
    record: Any = None
    version: Version | None = None
    error: HedwigError | None = None


def rows_of(table: Table, batch: pa.RecordBatch) -> list[InputRow]:
    """Return the rows of a batch as records, in their order.

    Columns that `table` does not have are ignored. Optional columns (`optional_columns`) and columns that may be null
    may be missing. A row that cannot become a record has the reason in `error`.

    Raises: InvalidArgumentError - a column that is needed is missing.
    """
    schema = native_schema(table)
    for field in schema:
        if field.name not in batch.schema.names and field.name not in optional_columns(table) and not field.nullable:
            raise InvalidArgumentError(f"rows of {table} need the column {field.name!r}")
    columns = {
        field.name: _narrowed(batch.column(field.name), field.type)
        for field in schema
        if field.name in batch.schema.names
    }
    rows = batch.num_rows
    names = [columns[name].to_pylist() for name in key_columns(table)]
    sources = columns["version"].to_pylist() if "version" in columns else [None] * rows
    made = _MAKERS[table](columns, rows)
    return [
        _input_row(table, name, record, source)
        for name, record, source in zip(zip(*names, strict=True), made, sources, strict=True)
    ]


def _narrowed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with its 64-bit numbers cast to unsigned integers, if all of them are in range."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        # The number of some row is out of range. Decimals are slower, but the record then reports what is wrong.
        return column


def _input_row(table: Table, names: Sequence[bytes | None], made: _Made, source: bytes | None) -> InputRow:
    version = None if source is None else Version(source)
    try:
        key = RecordKey(Topic(_there("topic", names[0])))
        if table.kind.has_subscriber:
            key = RecordKey(key.topic, SubscriberId(_there("subscriber", names[1])))
        table.kind.check(key)
    except HedwigError as exc:
        return InputRow(version=version, error=exc.with_traceback(None))
    if isinstance(made, HedwigError):
        return InputRow(version=version, error=made)
    return InputRow(key, made, version)


# ------------------------------------------------------------------------------------------------------------- columns


def _topics(_: _Columns, rows: int) -> list[_Made]:
    # The table `ledgers` holds the ranges of a topic. A row here says only that the topic exists.
    return [_NO_RANGES] * rows


def _owners(columns: _Columns, rows: int) -> list[_Made]:
    nothing: list[_Json] = [None] * rows
    names = ("host", "port", "ssl_port", "epoch", "log")
    leaves = [columns[name].to_pylist() if name in columns else nothing for name in names]
    # A few hubs own all topics.
    return _distinct(list(zip(*leaves, strict=True)), _owner_record)


def _ledgers(columns: _Columns, _: int) -> list[_Made]:
    column = columns["ranges"]
    if column.null_count == 0 and not _has_items(column):
        return [_NO_RANGES] * len(column)
    return [_NO_RANGES if value == [] else _made(_ledger_record, value) for value in column.to_pylist()]


def _subscriptions(columns: _Columns, rows: int) -> list[_Made]:
    nothing = [None] * rows
    preferences = _preferences(columns["preferences"]) if "preferences" in columns else nothing
    states = _states(columns["state"]) if "state" in columns else nothing
    return [_subscription(*parts) for parts in zip(preferences, states, strict=True)]


def _preferences(column: pa.Array) -> list[_Made]:
    if _has_items(pc.struct_field(column, "options")):
        return [value and _made(_preference_record, value) for value in column.to_pylist()]
    leaves = [pc.struct_field(column, name).to_pylist() for name in _LIMITS]
    return _distinct(list(zip(column.is_valid().to_pylist(), *leaves, strict=True)), _plain_preferences)


def _states(column: pa.Array) -> list[_Made]:
    numbers = pc.struct_field(column, [0, 0])
    if numbers.null_count > column.null_count or _has_items(pc.struct_field(column, [0, 1])):
        return [value and _made(_state_record, value) for value in column.to_pylist()]
    return _distinct(numbers.to_pylist(), lambda number: None if number is None else _plain_state(number))


_MAKERS: Final[Mapping[Table, Callable[[_Columns, int], list[_Made]]]] = {
    Table.TOPICS: _topics,
    Table.OWNERS: _owners,
    Table.LEDGERS: _ledgers,
    Table.SUBSCRIPTIONS: _subscriptions,
}


def _has_items(lists: pa.Array) -> bool:
    return bool(pc.max(pc.list_value_length(lists)).as_py())


def _made(make: Callable[..., Any], *values: _Json) -> _Made:
    try:
        return make(*values)
    except HedwigError as exc:
        return exc.with_traceback(None)


def _distinct(values: Sequence[Hashable], make: Callable[..., Any]) -> list[_Made]:
    """Return what `make` makes of each value, or of each tuple of values. Call it once for equal ones."""
    made = {value: _made(make, *(value if isinstance(value, tuple) else (value,))) for value in set(values)}
    return [made[value] for value in values]


# ------------------------------------------------------------------------------------------------------------- records

_NO_RANGES: Final = LedgerRanges()
_LIMITS: Final = ("message_bound", "message_filter", "message_window_size")


def _there(what: str, value: _Json) -> Any:
    if value is None:
        raise InvalidArgumentError(f"{what} is null")
    return value


def _number(what: str, value: _Json) -> int:
    return int(_there(what, value))


def _optional_number(value: _Json) -> int | None:
    return None if value is None else int(value)


def _owner_record(host: _Json, port: _Json, ssl_port: _Json, epoch: _Json, log: _Json) -> HubInfo:
    return HubInfo(
        host=_there("host", host),
        port=_there("port", port),
        ssl_port=ssl_port,
        epoch=_number("epoch", epoch),
        log=_optional_number(log),
    )


def _ledger_record(ranges: _Json) -> LedgerRanges:
    return LedgerRanges(tuple(_range_record(item) for item in _there("ranges", ranges)))


def _range_record(item: _Json) -> LedgerRange:
    item = _there("a ledger range", item)
    end = item["end"]
    return LedgerRange(
        ledger_id=_number("ledger_id", item["ledger_id"]),
        start=_optional_number(item["start"]),
        end=None if end is None else _seq_record(end),
    )


def _seq_record(value: _Json) -> MessageSeqId:
    value = _there("consumed", value)
    remote = tuple(_remote_record(item) for item in value["remote"] or ())
    return MessageSeqId(_number("local", value["local"]), remote)


def _remote_record(item: _Json) -> RegionSeqId:
    item = _there("an entry of remote", item)
    return RegionSeqId(_there("region", item["region"]), _number("seq_id", item["seq_id"]))


def _subscription(preferences: _Made, state: _Made) -> _Made:
    for part in (preferences, state):
        if isinstance(part, HedwigError):
            return part
    return SubscriptionData(preferences=preferences, state=state)


def _state_record(value: _Json) -> SubscriptionState:
    return SubscriptionState(_seq_record(value["consumed"]))


def _plain_state(number: int) -> SubscriptionState:
    return SubscriptionState(MessageSeqId(int(number)))


def _preference_record(value: _Json) -> SubscriptionPreferences:
    options: dict[str, bytes] = {}
    for item in value["options"] or ():
        name = _there("name", _there("an option", item)["name"])
        if name in options:
            raise InvalidArgumentError(f"there is an option {name!r} twice")
        options[name] = _there("value", item["value"])
    return SubscriptionPreferences(options=options, **{name: value[name] for name in _LIMITS})


def _plain_preferences(
    is_there: bool, bound: int | None, message_filter: str | None, window: int | None
) -> SubscriptionPreferences | None:
    if not is_there:
        return None
    return SubscriptionPreferences(message_bound=bound, message_filter=message_filter, message_window_size=window)
