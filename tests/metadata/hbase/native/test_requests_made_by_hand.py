"""Requests that the driver encodes by hand equal those that protobuf encodes from the same messages."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from hedwig.metadata.hbase.durability import Durability
from hedwig.metadata.hbase.native.actions import Change, Look, delete_of, get_of, put_of, stated
from hedwig.metadata.hbase.native.hbase_pb2 import (
    DELETE_MULTIPLE_VERSIONS,
    EQUAL,
    Action,
    BinaryComparator,
    ByteArrayComparable,
    Column,
    ColumnValue,
    Comparator,
    Condition,
    Get,
    GetRequest,
    MutateRequest,
    MutationProto,
    QualifierValue,
    RegionAction,
    RegionSpecifier,
)
from hedwig.metadata.hbase.native.wire.regions import Region, Server

ROWS = st.binary(min_size=1, max_size=300)
VALUES = st.binary(max_size=300)
COLUMNS = st.sampled_from([b"s:v", b"s:d", b"p:d", b"s:" + b"long" * 40])
DURABILITIES = st.sampled_from(Durability)
NAMES = {
    Durability.CLUSTER: MutationProto.USE_DEFAULT,
    Durability.SYNC: MutationProto.SYNC_WAL,
    Durability.FSYNC: MutationProto.FSYNC_WAL,
}
REGION = Region(b"ns:table,,1.0123456789abcdef0123456789abcdef.", "ns:table", b"", b"", Server("host", 1))
SPECIFIER = RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=REGION.name)


def families(cells: dict[bytes, QualifierValue]) -> list[ColumnValue]:
    """Group cells by family, each family at the position of its first cell."""
    by_family: dict[bytes, list[QualifierValue]] = {}
    for name, cell in cells.items():
        family, _, cell.qualifier = name.partition(b":")
        by_family.setdefault(family, []).append(cell)
    return [ColumnValue(family=family, qualifier_value=them) for family, them in by_family.items()]


def expected_condition(row: bytes, column: bytes, value: bytes | None) -> Condition:
    family, _, qualifier = column.partition(b":")
    if value is None:
        comparator = Comparator(name="org.apache.hadoop.hbase.filter.NullComparator", serialized_comparator=b"")
    else:
        binary = BinaryComparator(comparable=ByteArrayComparable(value=value))
        comparator = Comparator(
            name="org.apache.hadoop.hbase.filter.BinaryComparator", serialized_comparator=binary.SerializeToString()
        )
    return Condition(row=row, family=family, qualifier=qualifier, compare_type=EQUAL, comparator=comparator)


@given(ROWS, COLUMNS, st.none() | VALUES, st.dictionaries(COLUMNS, VALUES, min_size=1), DURABILITIES)
def test_conditional_put(
    row: bytes, column: bytes, expected: bytes | None, values: dict[bytes, bytes], durability: Durability
) -> None:
    async def change() -> Change:
        return Change(REGION, row, column, expected, put_of(row, values) + stated(durability), 0.0)

    made = asyncio.run(change())
    mutation = MutationProto(
        row=row,
        mutate_type=MutationProto.PUT_CELLS,
        column_value=families({name: QualifierValue(value=value) for name, value in values.items()}),
        durability=NAMES[durability],
    )
    condition = expected_condition(row, column, expected)
    assert MutateRequest.FromString(made.request()) == MutateRequest(
        region=SPECIFIER, mutation=mutation, condition=condition
    )
    assert RegionAction.FromString(made.part()) == RegionAction(
        region=SPECIFIER, action=[Action(index=0, mutation=mutation)], condition=condition
    )


@given(ROWS, COLUMNS, VALUES, st.dictionaries(COLUMNS, st.integers(1, 2**62), min_size=1), DURABILITIES)
def test_conditional_delete(
    row: bytes, column: bytes, expected: bytes, cells: dict[bytes, int], durability: Durability
) -> None:
    async def change() -> Change:
        return Change(REGION, row, column, expected, delete_of(row, cells) + stated(durability), 0.0)

    made = MutateRequest.FromString(asyncio.run(change()).request())
    versions = {name: QualifierValue(timestamp=at, delete_type=DELETE_MULTIPLE_VERSIONS) for name, at in cells.items()}
    mutation = MutationProto(
        row=row,
        mutate_type=MutationProto.DELETE_CELLS,
        column_value=families(versions),
        durability=NAMES[durability],
    )
    assert made == MutateRequest(
        region=SPECIFIER, mutation=mutation, condition=expected_condition(row, column, expected)
    )


@given(ROWS, st.lists(COLUMNS, min_size=1, unique=True))
def test_read(row: bytes, names: list[bytes]) -> None:
    async def look() -> Look:
        return Look(REGION, get_of(row, names), 0.0)

    made = asyncio.run(look())
    by_family: dict[bytes, list[bytes]] = {}
    for name in names:
        family, _, qualifier = name.partition(b":")
        by_family.setdefault(family, []).append(qualifier)
    get = Get(row=row, column=[Column(family=family, qualifier=them) for family, them in by_family.items()])
    assert GetRequest.FromString(made.request()) == GetRequest(region=SPECIFIER, get=get)
    assert RegionAction.FromString(made.part()) == RegionAction(region=SPECIFIER, action=[Action(index=0, get=get)])
