"""Surprising behaviour of HBase, shown on a real server, and proof that the driver copes with it."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from hedwig.errors import MetadataError
from hedwig.metadata import open_metadata
from hedwig.metadata.hbase.driver import ConditionalPut, ScanRange
from hedwig.metadata.hbase.native.actions import Change, Look, get_of, put_of
from hedwig.metadata.hbase.native.cluster.links import DATA
from hedwig.metadata.hbase.native.hbase_pb2 import GetRequest, RegionSpecifier
from hedwig.metadata.hbase.native.wire.connection import BOUNDS, Connection
from hedwig.metadata.hbase.native.wire.failures import Meaning, ServerFailure
from hedwig.metadata.hbase.native.wire.regions import Region
from hedwig.model import HubInfo, Topic
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.versions import NEW
from tests.faults.support.sickbay import heal
from tests.faults.support.waiting import until
from tests.metadata.hbase.native.conftest import Doors, Namespace, soon


def put(namespace: Namespace, row: bytes, expected: bytes | None, values: dict[bytes, bytes]) -> ConditionalPut:
    return ConditionalPut(
        table=namespace.table,
        row=row,
        column=b"o:v",
        expected=expected,
        values=values,
        token=b"12345678",
        show=(b"o:v", b"o:d"),
    )


async def open_connection(region: Region) -> Connection:
    return await Connection.open(region.server, DATA, "tester", lambda _: None)


async def test_a_region_goes_by_its_full_name_only(doors: Doors) -> None:
    region = (await doors.regions())[0]
    connection = await open_connection(region)
    try:
        look = Look(region, get_of(b"0000row", (b"o:v",)), 0.0)
        assert look.answer(await connection.ask("Get", look.request(), soon())) is None
        encoded = RegionSpecifier(type=RegionSpecifier.ENCODED_REGION_NAME, value=region.name.split(b".")[-2])
        request = GetRequest.FromString(look.request())
        request.region.CopyFrom(encoded)
        with pytest.raises(ServerFailure) as refusal:
            await connection.ask("Get", request.SerializeToString(), soon())
        assert refusal.value.meaning is Meaning.ELSEWHERE
    finally:
        connection.close()


async def test_replies_come_in_any_order_and_reach_those_who_asked(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"0000order-%d" % number for number in range(100)]
    for row in rows:
        assert await driver.put_if(put(namespace, row, None, {b"o:v": row}), soon()) is None
    region = (await doors.regions())[0]
    connection = await open_connection(region)
    came: list[int] = []

    async def one(number: int) -> None:
        look = Look(region, get_of(rows[number], (b"o:v",)), 0.0)
        row = look.answer(await connection.ask("Get", look.request(), soon()))
        assert row is not None
        assert row.value(b"o:v") == rows[number]
        came.append(number)

    try:
        async with asyncio.timeout(60):
            while came == sorted(came):
                came.clear()
                await asyncio.gather(*(one(number) for number in range(len(rows))))
    finally:
        connection.close()


async def test_calls_that_nobody_answers_end_by_themselves(namespace: Namespace, doors: Doors) -> None:
    """A server that was paused drops expired calls without an answer. The connection still works."""
    region = (await doors.regions())[0]
    launcher = namespace.servers.launcher
    connection = await open_connection(region)
    look = Look(region, get_of(b"0000row", (b"o:v",)), 0.0)
    results: list[bytes | Exception] = []
    try:
        await connection.ask("Get", look.request(), soon())
        await asyncio.to_thread(launcher.pause, "regionserver-1")
        for _ in range(64):
            connection.send("Get", look.request(), 0.5, results.append)
        await until(lambda: len(results) == 64, "the end of 64 calls")
        assert all(isinstance(result, OutcomeUnknownError) for result in results)
        assert connection.calls_in_flight == 0
        await asyncio.to_thread(launcher.resume, "regionserver-1")
        assert look.answer(await connection.ask("Get", look.request(), soon())) is None
        assert len(results) == 64, "nobody hears twice"
    finally:
        connection.close()
        await asyncio.to_thread(heal, launcher)


async def test_a_call_that_did_not_leave_was_surely_not_carried_out(namespace: Namespace, doors: Doors) -> None:
    region = (await doors.regions())[0]
    connection = await open_connection(region)
    results: list[bytes | Exception] = []
    row = b"0000never"
    change = Change(region, row, b"o:v", None, put_of(row, {b"o:v": b"x"}), 0.0)
    connection.send("Mutate", change.request(), 30.0, results.append)
    connection.close()
    await asyncio.sleep(0)
    assert [getattr(result, "sent", None) for result in results] == [False]
    driver = await doors.driver()
    assert await driver.get(namespace.table, row, (b"o:v",), soon()) is None
    with pytest.raises(NotAppliedError):
        connection.send("Mutate", change.request(), 30.0, results.append)


async def test_more_calls_than_a_server_takes_are_carried_out_in_the_end(namespace: Namespace, doors: Doors) -> None:
    """Many clients send so many calls that the server refuses some. No operation of a store fails for that."""
    region = (await doors.regions())[0]
    look = Look(region, get_of(b"0000row", (b"o:v",)), 0.0)
    came: Counter[str] = Counter()
    flood = [await open_connection(region) for _ in range(10)]
    enough = asyncio.Event()

    def again(connection: Connection) -> Callable[[bytes | Exception], None]:
        def done(result: bytes | Exception) -> None:
            if isinstance(result, ServerFailure):
                assert result.meaning is Meaning.NOT_YET, str(result)
            came[getattr(result, "java_class", type(result).__name__)] += 1
            if connection.ended is None and not enough.is_set():
                connection.send("Get", look.request(), 30.0, done)

        return done

    try:
        for connection in flood:
            for _ in range(BOUNDS.calls_max):
                connection.send("Get", look.request(), 30.0, again(connection))
        async with await open_metadata(namespace.url) as store:
            hub = HubInfo(host="hub-1", port=4080, epoch=1)
            topics = [Topic(b"flooded-%d" % number) for number in range(200)]
            await asyncio.gather(*(store.ownership.write(topic, hub, NEW) for topic in topics))
            await until(lambda: came["CallQueueTooBigException"], "a call too many")
            records = await asyncio.gather(*(store.ownership.read(topic) for topic in topics))
            assert all(one is not None and one.value == hub for one in records)
    finally:
        enough.set()
        for connection in flood:
            connection.close()
    assert came["bytes"] > 0


async def test_an_empty_value_is_an_absent_one(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    row = b"4000empty"
    assert await driver.put_if(put(namespace, row, None, {b"o:v": b"", b"o:d": b"data"}), soon()) is None
    assert await driver.put_if(put(namespace, row, None, {b"o:v": b"1"}), soon()) is None
    refused = await driver.put_if(put(namespace, row, None, {b"o:v": b"2"}), soon())
    assert refused is not None
    assert refused.current is not None
    assert refused.current.value(b"o:v") == b"1"


async def test_a_delete_takes_the_cells_that_it_names_and_no_others(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    row = b"4000deleted"
    columns = (b"o:v", b"o:d")
    assert await driver.put_if(put(namespace, row, None, {b"o:v": b"1", b"o:d": b"data"}), soon()) is None
    stored = await driver.get(namespace.table, row, columns, soon())
    assert stored is not None
    times = {b"o:v": stored.cells[b"o:v"].timestamp_ms}
    assert not await driver.delete_if(namespace.table, row, b"o:v", b"other", times, soon())
    assert await driver.delete_if(namespace.table, row, b"o:v", b"1", times, soon())
    left = await driver.get(namespace.table, row, columns, soon())
    assert left is not None
    assert {name: cell.value for name, cell in left.cells.items()} == {b"o:d": b"data"}
    assert await driver.put_if(put(namespace, row, None, {b"o:v": b"2"}), soon()) is None
    again = await driver.get(namespace.table, row, columns, soon())
    assert again is not None
    assert again.value(b"o:v") == b"2"


async def test_the_server_filters_names_byte_for_byte(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    awkward = [b"\xff\n", b"\x80.", b"a.b", b"aXb", b"\n", b"(", b"\\E", b"\x00\xff"]
    for name in awkward:
        row = b"c000" + name + b"rest"
        assert await driver.put_if(put(namespace, row, None, {b"o:v": b"L" + name}), soon()) is None
    for name in awkward:
        rows = ScanRange(start=b"c000", stop=b"c001", columns=(b"o:v",), marked=(b"o:v", b"L"), name_prefix=name)
        scanned = await driver.scan(namespace.table, rows, 100, soon())
        assert [row.key for row in scanned] == [b"c000" + name + b"rest"]
    rows = ScanRange(start=b"c000", stop=b"c001", columns=(b"o:v",), marked=(b"o:v", b"T"))
    assert await driver.scan(namespace.table, rows, 100, soon()) == []


async def test_the_server_looks_for_bytes_in_values(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    values = {b"c0001": b"\xa1h.\xff\n(x", b"c0002": b"before\xa1h.\xff\n(", b"c0003": b"\xa1hX\xff\n(x", b"c0004": b""}
    for row, value in values.items():
        assert await driver.put_if(put(namespace, row, None, {b"o:v": b"L", b"o:d": value}), soon()) is None
    assert await driver.put_if(put(namespace, b"c0005", None, {b"o:v": b"L"}), soon()) is None
    assert await driver.put_if(put(namespace, b"c0006", None, {b"o:v": b"T", b"o:d": values[b"c0001"]}), soon()) is None
    columns, sought = (b"o:v", b"o:d"), (b"o:d", b"\xa1h.\xff\n(")
    rows = ScanRange(start=b"c000", stop=b"c001", columns=columns, marked=(b"o:v", b"L"), containing=sought)
    scanned = await driver.scan(namespace.table, rows, 100, soon())
    assert {row.key: row.value(b"o:d") for row in scanned} == {row: values[row] for row in (b"c0001", b"c0002")}


async def test_a_request_that_is_too_large_is_refused_and_nothing_else_suffers(
    namespace: Namespace, doors: Doors
) -> None:
    driver = await doors.driver()
    small = [
        driver.put_if(put(namespace, b"8000small-%d" % number, None, {b"o:v": b"1"}), soon()) for number in range(20)
    ]
    large = driver.put_if(put(namespace, b"8000large", None, {b"o:v": b"1", b"o:d": bytes(5 << 20)}), soon())
    *done, refused = await asyncio.gather(*small, large, return_exceptions=True)
    assert done == [None] * 20
    assert isinstance(refused, MetadataError)
    assert await driver.get(namespace.table, b"8000large", (b"o:v",), soon()) is None


async def test_a_column_family_that_is_not_there_fails_alone(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"0000family-%d" % number for number in range(50)]
    random.Random(1).shuffle(rows)
    good = [driver.put_if(put(namespace, row, None, {b"o:v": b"1"}), soon()) for row in rows]
    bad = driver.put_if(put(namespace, b"0000family", None, {b"o:v": b"1", b"nosuch:d": b"x"}), soon())
    *done, refused = await asyncio.gather(*good, bad, return_exceptions=True)
    assert done == [None] * 50
    assert isinstance(refused, MetadataError)
    assert "NoSuchColumnFamily" in str(refused)
