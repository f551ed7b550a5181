"""Puts in one HBase region travel in one change, and each gets the outcome that it would get alone."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedwig.errors import BadVersionError, MetadataError, MetadataUnavailableError, TopicOwnerInfoExistsError
from hedwig.metadata import Delete, Read, RecordKey, Write
from hedwig.metadata.calls.attempts import Refusal
from hedwig.metadata.contract.kinds import OWNERSHIP
from hedwig.metadata.contract.write_lease import LeasedTable
from hedwig.metadata.hbase.driver import ConditionalPut, Row
from hedwig.metadata.hbase.native import NativeDriver
from hedwig.metadata.hbase.native.actions import Change, put_of, stated
from hedwig.metadata.hbase.native.cluster.together import METHOD, Together, request_of, were_updated
from hedwig.metadata.hbase.native.hbase_pb2 import (
    Cell,
    Column,
    ColumnValue,
    CoprocessorServiceRequest,
    CoprocessorServiceResult,
    Get,
    MultiRequest,
    MultiResponse,
    MutateRequest,
    MutateRowsRequest,
    MutateRowsResponse,
    MutationProto,
    NameBytesPair,
    QualifierValue,
    RegionActionResult,
    RegionSpecifier,
    Result,
    ResultOrException,
)
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region, Server
from hedwig.metadata.hbase.schema import Tables
from hedwig.metadata.hbase.tables import HBaseTable
from hedwig.model import HubInfo, Topic
from hedwig.outcomes import OutcomeUnknownError
from hedwig.versions import NEW
from tests.faults.support.proxy import Action, Proxy, Step, scripted
from tests.faults.support.wires import Request
from tests.metadata.hbase.native.conftest import OPTIONS, Doors, Namespace, soon
from tests.metadata.hbase.native.support.rewriter import Rewriter
from tests.metadata.hbase.native.support.wire import WRITE, HBaseWire, body_of, mutations_together

MANY: Final = 300
TOGETHER: Final = "put of several rows"
COLUMN: Final = b"o:v"
SERVER: Final = Server("host", 1)
REGION: Final = Region(b"ns:table,,1.0123456789abcdef0123456789abcdef.", "ns:table", b"", b"", SERVER)
OTHER: Final = Region(b"ns:table,5,1.0123456789abcdef0123456789abcdee.", "ns:table", b"5", b"", SERVER)


class Counting(Rewriter):
    """Stands before a region server, and records the number of rows in each call that changes several together."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        super().__init__(Server(host, int(port)), lambda _, frame: frame)
        self.rows: list[int] = []

    def note(self, method: str, request: Request) -> None:
        super().note(method, request)
        if mutations := mutations_together(method, body_of(request.data)[1]):
            self.rows.append(len(mutations))


def create(table: str, row: bytes, column: bytes = COLUMN, expected: bytes | None = None) -> ConditionalPut:
    return ConditionalPut(
        table=table,
        row=row,
        column=column,
        expected=expected,
        values={column: secrets.token_bytes(8)},
        token=b"12345678",
        show=(column,),
    )


async def made(driver: NativeDriver, puts: Sequence[ConditionalPut]) -> list[Refusal[Row] | Exception | None]:
    """Run puts, each by a caller of its own."""
    return await asyncio.gather(*(driver.put_if(put, soon()) for put in puts), return_exceptions=True)  # type: ignore[return-value]


def fresh(table: str, number: int = MANY) -> list[ConditionalPut]:
    """Return creations of rows in all three HBase regions."""
    run = secrets.token_hex(4).encode()
    return [create(table, b"%x000" % (index % 16) + run + b"%d" % index) for index in range(number)]


def next_of(put: ConditionalPut) -> ConditionalPut:
    """Return an update of what `put` has written."""
    return create(put.table, put.row, put.column, put.values[put.column])


async def check_shown(driver: NativeDriver, puts: Sequence[ConditionalPut]) -> None:
    """Check that each row shows what was put there."""
    rows = await asyncio.gather(*(driver.get(put.table, put.row, (COLUMN,), soon()) for put in puts))
    for put, row in zip(puts, rows, strict=True):
        assert row is not None
        assert row.value(COLUMN) == put.values[COLUMN]


async def acquainted(driver: NativeDriver, table: str) -> NativeDriver:
    """Return the driver once it has found out whether a table has the endpoint."""
    for _ in range(2):
        assert await made(driver, fresh(table)) == [None] * MANY
    return driver


async def test_creations_of_many_callers_travel_together(namespace: Namespace, doors: Doors) -> None:
    async with Counting(namespace.region_server) as server:
        driver = await acquainted(await doors.driver(server.route), namespace.table)
        server.rows.clear()
        puts = fresh(namespace.table)
        assert await made(driver, puts) == [None] * MANY
        assert sum(server.rows) > MANY * 0.9
        assert len(server.rows) < MANY / 5
        await check_shown(driver, puts)


@pytest.mark.parametrize("way", ["callers", "put_all"])
async def test_updates_travel_together(way: str, namespace: Namespace, doors: Doors) -> None:
    async with Counting(namespace.region_server) as server:
        driver = await acquainted(await doors.driver(server.route), namespace.table)
        puts = fresh(namespace.table)
        assert await driver.put_all(puts, soon()) == [None] * MANY
        for _ in range(3):
            server.rows.clear()
            puts = [next_of(put) for put in puts]
            answers = await made(driver, puts) if way == "callers" else await driver.put_all(puts, soon())
            assert answers == [None] * MANY
            assert sum(server.rows) > MANY * 0.9
            assert len(server.rows) < MANY / 5
            await check_shown(driver, puts)


@pytest.mark.parametrize("way", ["callers", "put_all"])
async def test_an_update_that_comes_too_late_is_refused_and_the_others_are_made(
    way: str, namespace: Namespace, doors: Doors
) -> None:
    driver = await acquainted(await doors.driver(), namespace.table)
    puts = fresh(namespace.table)
    assert await driver.put_all(puts, soon()) == [None] * MANY
    late = {7: next_of(puts[7]), 100: next_of(puts[100]), 299: next_of(puts[299])}
    for put in late.values():
        assert await driver.put_if(put, soon()) is None
    puts = [next_of(put) for put in puts]
    answers = await made(driver, puts) if way == "callers" else await driver.put_all(puts, soon())
    assert {index for index, answer in enumerate(answers) if answer is not None} == set(late)
    for index in late:
        answer = answers[index]
        assert isinstance(answer, Refusal)
        assert answer.current is not None
        assert answer.current.value(COLUMN) == late[index].values[COLUMN]
    await check_shown(driver, [late.get(index, put) for index, put in enumerate(puts)])


async def test_of_many_who_update_one_row_one_does(namespace: Namespace, doors: Doors) -> None:
    driver = await acquainted(await doors.driver(), namespace.table)
    other = await acquainted(await doors.driver(), namespace.table)
    standing = fresh(namespace.table, 40)
    assert await driver.put_all(standing, soon()) == [None] * 40
    puts = [next_of(put) for put in standing for _ in range(5)]
    others = [next_of(put) for put in standing for _ in range(5)]
    answers, answers_of_other = await asyncio.gather(made(driver, puts), other.put_all(others, soon()))
    pairs = zip((*puts, *others), (*answers, *answers_of_other), strict=True)
    winners = [put for put, answer in pairs if answer is None]
    # Who lost to a caller just now may learn no more than that its write was refused, or is in doubt.
    assert len(winners) <= 40
    assert sorted({put.row for put in winners}) == sorted(put.row for put in winners)
    await check_shown(driver, winners)


async def test_an_update_that_a_later_cell_hides_is_in_doubt_and_its_next_attempt_is_shown(
    namespace: Namespace, doors: Doors
) -> None:
    """Its record was written by a server whose clock was an hour ahead."""
    driver = await acquainted(await doors.driver(), namespace.table)
    standing = fresh(namespace.table)
    ahead = set(range(0, MANY, 30))
    for index, put in enumerate(standing):
        if index in ahead:
            await _create_an_hour_ahead(driver, put)
    others = [put for index, put in enumerate(standing) if index not in ahead]
    assert await driver.put_all(others, soon()) == [None] * len(others)
    puts = [next_of(put) for put in standing]
    answers = await driver.put_all(puts, soon())
    hidden = {index for index, answer in enumerate(answers) if answer is not None}
    assert hidden, "nothing was hidden: this proves nothing"
    assert hidden <= ahead
    assert all(isinstance(answers[index], OutcomeUnknownError) for index in hidden)
    await check_shown(driver, [standing[index] if index in hidden else put for index, put in enumerate(puts)])
    again = [puts[index] for index in sorted(hidden)]
    assert await driver.put_all(again, soon()) == [None] * len(again)
    await check_shown(driver, puts)


async def _create_an_hour_ahead(driver: NativeDriver, put: ConditionalPut) -> None:
    """Write a row as a server would whose clock is an hour ahead."""
    cell = QualifierValue(qualifier=b"v", value=put.values[COLUMN], timestamp=int(time.time() * 1000) + 3_600_000)
    mutation = MutationProto(
        row=put.row,
        mutate_type=MutationProto.PUT_CELLS,
        column_value=[ColumnValue(family=b"o", qualifier_value=[cell])],
    )
    region = await driver._cluster.locate(put.table, put.row, soon())
    change = Change(region, put.row, COLUMN, None, mutation.SerializeToString(), asyncio.get_running_loop().time() + 30)
    assert await driver._carry_out(change)


@pytest.mark.parametrize("way", ["callers", "put_all"])
async def test_one_that_is_there_is_refused_and_the_others_are_made(
    way: str, namespace: Namespace, doors: Doors
) -> None:
    driver = await acquainted(await doors.driver(), namespace.table)
    puts = fresh(namespace.table)
    there = {7, 100, 299}
    standing = [create(namespace.table, puts[index].row) for index in sorted(there)]
    assert await made(driver, standing) == [None] * len(there)
    if way == "callers":
        answers = await made(driver, puts)
    else:
        answers = await driver.put_all(puts, soon())
    assert {index for index, answer in enumerate(answers) if answer is not None} == there
    for put, index in zip(standing, sorted(there), strict=True):
        answer = answers[index]
        assert isinstance(answer, Refusal)
        assert answer.current is not None
        assert answer.current.value(COLUMN) == put.values[COLUMN]
    rows = await asyncio.gather(*(driver.get(namespace.table, put.row, (COLUMN,), soon()) for put in puts))
    assert all(
        row is not None and row.value(COLUMN) == put.values[COLUMN]
        for index, (row, put) in enumerate(zip(rows, puts, strict=True))
        if index not in there
    )


async def test_of_many_who_create_one_row_one_does(namespace: Namespace, doors: Doors) -> None:
    driver = await acquainted(await doors.driver(), namespace.table)
    other = await acquainted(await doors.driver(), namespace.table)
    puts = [
        replace(put, values={COLUMN: secrets.token_bytes(8)}) for put in fresh(namespace.table, 40) for _ in range(5)
    ]
    answers, others = await asyncio.gather(made(driver, puts), other.put_all(puts, soon()))
    winners = [put for put, answer in zip((*puts, *puts), (*answers, *others), strict=True) if answer is None]
    assert sorted(put.row for put in winners) == sorted({put.row for put in puts})
    for put in winners:
        row = await driver.get(namespace.table, put.row, (COLUMN,), soon())
        assert row is not None
        assert row.value(COLUMN) == put.values[COLUMN]


async def test_one_that_the_server_refuses_fails_alone(namespace: Namespace, doors: Doors) -> None:
    driver = await acquainted(await doors.driver(), namespace.table)
    puts = fresh(namespace.table)
    puts[11] = create(namespace.table, puts[11].row, b"nofamily:v")
    answers = await made(driver, puts)
    assert [index for index, answer in enumerate(answers) if answer is not None] == [11]
    assert isinstance(answers[11], MetadataError)


async def test_a_table_without_the_endpoint_is_written_as_ever(namespace: Namespace, doors: Doors) -> None:
    async with Counting(namespace.region_server) as server:
        driver = await doors.driver(server.route)
        spec = next(spec for spec in Tables(namespace.name).specs(3) if spec.name.endswith(OWNERSHIP.name))
        table = f"{namespace.name}:plain"
        await driver.create_table(replace(spec, name=table, table_attributes={}), soon())
        try:
            await acquainted(driver, table)
            assert server.rows == [1], "it asked once"
        finally:
            await driver.drop_table(table, soon())


async def test_a_batch_whose_lease_runs_out_as_it_begins_is_not_sent(namespace: Namespace, doors: Doors) -> None:
    async with Counting(namespace.region_server) as server:
        driver = await acquainted(await doors.driver(server.route), namespace.table)
        table = HBaseTable(OWNERSHIP, namespace.table, driver, OPTIONS)
        hub, key = HubInfo(host="hub-1", port=4080, epoch=1), RecordKey(Topic(secrets.token_bytes(8)))
        keys = [RecordKey(Topic(secrets.token_bytes(8))) for _ in range(20)]
        version = await table.write(key, hub, NEW)
        left_s = iter([1.0, 1.0])
        leased = LeasedTable(table, lambda: next(left_s, 0.0))
        server.calls.clear()
        outcomes = await leased.apply([*(Write(each, hub, NEW) for each in keys), Delete(key, version), Read(key)])
        assert next(left_s, None) is None, "the lease was good when the batch began"
        *refused, read = outcomes
        assert all(isinstance(outcome.error, MetadataUnavailableError) for outcome in refused)
        assert read.record is not None
        assert set(server.calls) <= {"Get"}, "a write was sent"


class TogetherWire(HBaseWire):
    """HBase's RPC, in which calls that change several rows together have a name of their own."""

    def _request(self, frame: bytes) -> Request:
        request = super()._request(frame)
        is_together = request.name == WRITE and mutations_together(self.method_of(frame), body_of(frame)[1])
        return replace(request, name=TOGETHER) if is_together else request


def _through(proxy: Proxy, namespace: Namespace) -> Callable[[Server], Server]:
    """Return a route that leads to the region server through the proxy."""
    (host, _, port), behind = proxy.address.rpartition(":"), int(namespace.region_server.rpartition(":")[2])
    return lambda server: Server(host, int(port)) if server.port == behind else server


@pytest.mark.parametrize("there", [False, True], ids=["all-new", "one-is-there"])
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
async def test_what_was_lost_on_the_way_is_settled_for_each(
    action: Action, there: bool, namespace: Namespace, doors: Doors
) -> None:
    """Lose calls or replies of creations that travel together, several times: each outcome is as reported."""
    direct = HBaseTable(OWNERSHIP, namespace.table, await doors.driver(), OPTIONS)
    hub, other = HubInfo(host="hub-1", port=4080, epoch=1), HubInfo(host="hub-2", port=4080, epoch=1)
    keys = [RecordKey(Topic(b"lost %s %d" % (secrets.token_hex(4).encode(), number))) for number in range(MANY)]
    standing = {keys[index]: await direct.write(keys[index], other, NEW) for index in ((5, 250) if there else ())}
    async with Proxy(namespace.region_server, TogetherWire) as proxy:
        driver = await acquainted(await doors.driver(_through(proxy, namespace)), namespace.table)
        proxy.plan = scripted(TOGETHER, [Step(action)] * 3)
        table = HBaseTable(OWNERSHIP, namespace.table, driver, OPTIONS)
        outcomes = await table.apply([Write(key, hub, NEW) for key in keys])
        assert proxy.done[action] >= 1, "nothing was lost"
        await driver.close()
    for key, outcome in zip(keys, outcomes, strict=True):
        record = await direct.read(key)
        assert record is not None
        if key in standing:
            assert isinstance(outcome.error, TopicOwnerInfoExistsError)
            assert (record.value, record.version) == (other, standing[key])
        else:
            assert outcome.error is None
            assert (record.value, record.version) == (hub, outcome.version)


@pytest.mark.parametrize("late", [False, True], ids=["all-in-time", "one-is-late"])
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
async def test_updates_that_were_lost_on_the_way_are_settled_for_each(
    action: Action, late: bool, namespace: Namespace, doors: Doors
) -> None:
    direct = HBaseTable(OWNERSHIP, namespace.table, await doors.driver(), OPTIONS)
    hubs = [HubInfo(host=f"hub-{number}", port=4080, epoch=1) for number in range(3)]
    keys = [RecordKey(Topic(b"lost %s %d" % (secrets.token_hex(4).encode(), number))) for number in range(MANY)]
    versions = [outcome.written() for outcome in await direct.apply([Write(key, hubs[0], NEW) for key in keys])]
    standing = {
        index: await direct.write(keys[index], hubs[2], versions[index]) for index in ((5, 250) if late else ())
    }
    async with Proxy(namespace.region_server, TogetherWire) as proxy:
        driver = await acquainted(await doors.driver(_through(proxy, namespace)), namespace.table)
        proxy.plan = scripted(TOGETHER, [Step(action)] * 3)
        table = HBaseTable(OWNERSHIP, namespace.table, driver, OPTIONS)
        writes = [Write(key, hubs[1], version) for key, version in zip(keys, versions, strict=True)]
        outcomes = await table.apply(writes)
        assert proxy.done[action] >= 1, "nothing was lost"
        await driver.close()
    for index, (key, outcome) in enumerate(zip(keys, outcomes, strict=True)):
        record = await direct.read(key)
        assert record is not None
        if index in standing:
            assert isinstance(outcome.error, BadVersionError)
            assert (record.value, record.version) == (hubs[2], standing[index])
        else:
            assert outcome.error is None
            assert (record.value, record.version) == (hubs[1], outcome.version)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5, unique=True), st.binary(max_size=300))
def test_the_request_for_updates_reads_each_row_after_all(rows: list[bytes], value: bytes) -> None:
    async def requests() -> tuple[tuple[str, bytes], list[MutateRequest]]:
        changes = [
            Change(REGION, row, COLUMN, b"before", put_of(row, {COLUMN: value}), 0.0, mark=value) for row in rows
        ]
        return request_of(changes), [MutateRequest.FromString(change.request()) for change in changes]

    (method, raw), single = asyncio.run(requests())
    assert method == "Multi"
    (region,) = MultiRequest.FromString(raw).region_action
    assert region.region == RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=REGION.name)
    first, *looks = region.action
    assert first.service_call.method_name == "MutateRows"
    assert MutateRowsRequest.FromString(first.service_call.request) == MutateRowsRequest(
        mutation_request=[one.mutation for one in single], condition=[one.condition for one in single]
    )
    column = Column(family=b"o", qualifier=[b"v"])
    assert [look.get for look in looks] == [Get(row=row, column=[column]) for row in rows]
    assert [action.index for action in region.action] == list(range(len(rows) + 1))


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=5, unique=True), st.binary(max_size=300))
def test_the_request_is_what_protobuf_makes_of_it(rows: list[bytes], value: bytes) -> None:
    async def requests() -> tuple[tuple[str, bytes], list[MutateRequest]]:
        changes = [Change(REGION, row, COLUMN, None, put_of(row, {COLUMN: value}) + stated(4), 0.0) for row in rows]  # type: ignore[arg-type]
        return request_of(changes), [MutateRequest.FromString(change.request()) for change in changes]

    (method, raw), single = asyncio.run(requests())
    assert method == METHOD
    request = CoprocessorServiceRequest.FromString(raw)
    assert request.region == RegionSpecifier(type=RegionSpecifier.REGION_NAME, value=REGION.name)
    assert (request.call.row, request.call.service_name) == (rows[0], "MultiRowMutationService")
    assert request.call.method_name == "MutateRows"
    assert MutateRowsRequest.FromString(request.call.request) == MutateRowsRequest(
        mutation_request=[one.mutation for one in single], condition=[one.condition for one in single]
    )


def creates(region: Region, row: bytes) -> Change:
    return Change(region, row, COLUMN, None, put_of(row, {COLUMN: b"x"}), 0.0, mark=b"x")


def waiting(*rows: tuple[Region, bytes]) -> Together:
    """Return creations of rows, in a table that is known to have the endpoint."""
    creations = Together(SERVER)
    creations.asked(REGION.table)
    creations.answered(REGION.table, b"\x12\x04\x12\x02\x08\x00")
    for region, row in rows:
        assert creations.admit(creates(region, row), 0.0)
    return creations


def taken(creations: Together, number: int = 9, now: float = 0.0) -> list[bytes]:
    return [change.row for change in creations.take(number, 1000, now)]


async def test_regions_take_turns_and_each_has_one_call_at_a_time() -> None:
    creations = waiting((REGION, b"1"), (OTHER, b"6"), (REGION, b"2"), (OTHER, b"7"), (REGION, b"3"))
    assert taken(creations, 2) == [b"1", b"2"]
    assert taken(creations) == [b"6", b"7"]
    assert taken(creations) == []
    creations.over(creates(REGION, b"1"))
    assert taken(creations) == [b"3"]
    assert not creations


async def test_creations_and_updates_take_turns_and_share_no_call() -> None:
    together = waiting(*((OTHER if number % 2 else REGION, b"%d" % number) for number in range(4)))
    for region, row in ((REGION, b"u1"), (OTHER, b"u6"), (REGION, b"u2")):
        change = Change(region, row, COLUMN, b"before", put_of(row, {COLUMN: b"x"}), 0.0, mark=b"x")
        assert together.admit(change, 0.0)
    calls = [taken(together) for _ in range(5)]
    assert sorted(calls) == [[], [b"0", b"2"], [b"1", b"3"], [b"u1", b"u2"], [b"u6"]]
    assert [call[0][:1] == b"u" for call in calls[:4]] in ([True, False] * 2, [False, True] * 2)


def answer(*results: ResultOrException, exception: NameBytesPair | None = None) -> bytes:
    region = RegionActionResult(result_or_exception=results, exception=exception)
    return MultiResponse(region_action_result=[region]).SerializeToString()


def made_all(processed: bool | None = True) -> ResultOrException:
    value = NameBytesPair(value=MutateRowsResponse(processed=processed).SerializeToString())
    return ResultOrException(index=0, service_result=CoprocessorServiceResult(value=value))


def look(index: int, value: bytes) -> ResultOrException:
    return ResultOrException(index=index, result=Result(cell=[Cell(value=value)]))


async def test_an_update_is_done_if_its_row_shows_it() -> None:
    changes = [
        Change(REGION, row, COLUMN, b"before", put_of(row, {COLUMN: row}), 0.0, mark=row) for row in (b"1", b"2")
    ]
    failed = NameBytesPair(name="org.apache.hadoop.hbase.NotServingRegionException", value=b"x")
    assert were_updated(changes, answer(made_all(), look(1, b"1"), look(2, b"2"))) == [True, True]
    assert were_updated(changes, answer(look(2, b"2"), made_all(), look(1, b"before"))) == [False, True]
    assert were_updated(changes, answer(made_all(), look(1, b"1"), ResultOrException(index=2, exception=failed))) == [
        True,
        False,
    ]
    assert were_updated(changes, answer(made_all())) == [False, False]
    assert were_updated(changes, answer(made_all(False), look(1, b"1"), look(2, b"2"))) is False
    for unsaid in (answer(made_all(None)), answer(), b""):
        assert were_updated(changes, unsaid) is None
    for of_call in (answer(exception=failed), answer(ResultOrException(index=0, exception=failed))):
        with pytest.raises(ServerFailure):
            were_updated(changes, of_call)


async def test_the_same_row_is_not_created_twice_in_one_change() -> None:
    creations = waiting((REGION, b"1"), (REGION, b"2"), (REGION, b"1"), (REGION, b"3"))
    assert taken(creations) == [b"1", b"2"]
    creations.over(creates(REGION, b"1"))
    assert taken(creations) == [b"1", b"3"]


async def test_nobody_waits_for_long_for_a_call_that_is_not_answered() -> None:
    creations = waiting((REGION, b"1"), (OTHER, b"6"))
    taken(creations, now=10.0)
    assert creations.admit(creates(REGION, b"2"), 10.9)
    assert creations.late(10.9) == []
    assert [change.row for change in creations.late(11.1)] == [b"2"]
    assert not creations.admit(creates(REGION, b"3"), 11.1)
    assert taken(creations) == [b"6"]
    creations.over(creates(REGION, b"1"))
    assert creations.admit(creates(REGION, b"3"), 11.2)


async def test_of_many_calls_one_feels_the_brake_of_the_server() -> None:
    creations = waiting(*((REGION, b"%d" % number) for number in range(200)))
    sizes = []
    for _ in range(64):
        sizes.append(len(taken(creations, 2)))
        creations.over(creates(REGION, b"1"))
    assert sizes == ([2] * 31 + [1]) * 2


async def test_after_a_change_that_made_nothing_creations_go_by_themselves_for_a_while() -> None:
    creations = waiting()

    def alone() -> int:
        for number in range(10_000):
            if creations.admit(creates(REGION, b"2"), 0.0):
                return number
        raise AssertionError("they travel together no more")

    for _ in range(2):
        # Creations that were under way at the same time count as one failure.
        for _ in range(3):
            creations.came(creates(REGION, b"1"), False)
        assert alone() == 100
        creations.came(creates(REGION, b"1"), False)
        assert alone() == 200
        creations.came(creates(REGION, b"1"), True)
    creations.came(creates(REGION, b"1"), OutcomeUnknownError("the connection ended"))
    assert alone() == 0, "that says nothing of the rows"


async def test_an_endpoint_that_is_gone_is_not_asked_again() -> None:
    creations = waiting()
    creations.came(creates(REGION, b"1"), ServerFailure("org.x.UnknownProtocolException", "none", for_good=True))
    assert not any(creations.admit(creates(REGION, b"2"), 0.0) for _ in range(1000))
    assert not creations.is_unknown(REGION.table)


async def test_small_companies_do_not_wait_for_each_other(namespace: Namespace, doors: Doors) -> None:
    async with Counting(namespace.region_server) as server:
        driver = await doors.driver(server.route, replace(OPTIONS, in_flight_max=16))
        await acquainted(driver, namespace.table)
        assert METHOD not in server.calls


@pytest.mark.parametrize("answer", [b"", b"\x12\x00", b"\x12\x04\x12\x02\x08\x01", b"\x00"])
async def test_a_server_that_does_not_heed_conditions_gets_no_creations(answer: bytes) -> None:
    creations = Together(SERVER)
    creations.asked(REGION.table)
    creations.answered(REGION.table, answer)
    assert not creations.admit(creates(REGION, b"2"), 0.0)
    assert not creations.is_unknown(REGION.table)
