"""The driver uses what servers report of moved HBase regions. Lookups and scans survive lost calls."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import Final

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import LayoutMissingError
from hedwig.metadata import MetadataUrl, StoreOptions, format_metadata
from hedwig.metadata.calls.attempts import Attempts
from hedwig.metadata.hbase.driver import ConditionalPut, Row, ScanRange
from hedwig.metadata.hbase.native import NativeDriver, connect
from hedwig.metadata.hbase.native.cluster.batching import GATHERING
from hedwig.metadata.hbase.native.wire.regions import Region
from hedwig.outcomes import NotAppliedError
from tests.faults.support.proxy import PASS, Action, Exchange, Proxy, Step, scripted
from tests.metadata.hbase.native.support.administrator import Administrator
from tests.metadata.hbase.native.support.wire import HBaseWire
from tests.metadata.support.backends import reached_at
from tests.support.servers import RunningServers

OPTIONS: Final = StoreOptions(operation_timeout_s=60.0, regions=12)
COLUMNS: Final = (b"o:v",)
SCAN: Final = "Scan"


def soon() -> Deadline:
    """Return a deadline that no test reaches."""
    return Deadline.after(SystemClock(), OPTIONS.operation_timeout_s)


def put_of(table: str, row: bytes, expected: bytes | None, value: bytes) -> ConditionalPut:
    return ConditionalPut(
        table=table, row=row, column=b"o:v", expected=expected, values={b"o:v": value}, token=value, show=COLUMNS
    )


def lose_every_fifth_scan(exchange: Exchange) -> Step:
    return Step(Action.CUT_REPLY) if exchange.name == SCAN and exchange.number % 5 == 0 else PASS


@dataclass(frozen=True, slots=True)
class Client:
    """A driver of a table on three region servers. A proxy counts its requests to them and to the master."""

    driver: NativeDriver
    table: str
    proxy: Proxy
    administrator: Administrator

    async def put(self, row: bytes, expected: bytes | None, value: bytes) -> None:
        assert await self.driver.put_if(put_of(self.table, row, expected, value), soon()) is None

    async def get(self, row: bytes) -> Row | None:
        return await self.driver.get(self.table, row, COLUMNS, soon())

    async def region(self, row: bytes) -> Region:
        """Return the region that holds a row."""
        return next(region for region in await self.administrator.regions(self.table) if region.holds(row))

    async def move(self, row: bytes) -> None:
        """Move the region that holds a row to another server."""
        before = await self.region(row)
        await self.administrator.move(before)
        after = await self.region(row)
        assert (after.name, after.server != before.server) == (before.name, True)


@pytest.fixture(scope="module")
def namespace(servers: RunningServers) -> str:
    """Return a formatted namespace on three region servers."""
    servers.on_three.address("hbase")
    name = f"w{uuid.uuid4().hex}"
    with asyncio.Runner() as runner:
        runner.run(format_metadata(f"hbase://{servers.on_three.address('zookeeper')}/{name}", OPTIONS))
    return name


@pytest.fixture
async def client(servers: RunningServers, namespace: str) -> AsyncIterator[Client]:
    running = servers.on_three
    async with AsyncExitStack() as stack:
        address = f"{running.address('hbase')},{running.launcher.address('regionserver')}"
        proxy = await stack.enter_async_context(Proxy(address, HBaseWire))
        administrator = await stack.enter_async_context(Administrator(running.address("hbase")))
        url = MetadataUrl.parse(f"hbase://{running.address('zookeeper')}/{namespace}")
        driver = await connect(url, OPTIONS, reached_at(address, proxy.address))
        stack.push_async_callback(driver.close)
        yield Client(driver, f"{namespace}:ownership", proxy, administrator)


async def test_a_call_finds_a_moved_region_without_looking_it_up(client: Client) -> None:
    row = b"0000moved"
    await client.put(row, None, b"1")
    looks = client.proxy.seen[SCAN]
    assert looks > 0, "looks at hbase:meta are scans, and pass the proxy"
    for number in (1, 2):
        await client.move(row)
        with pytest.raises(NotAppliedError, match="RegionMovedException"):
            await client.put(row, b"%d" % number, b"%d" % (number + 1))
        await client.put(row, b"%d" % number, b"%d" % (number + 1))
    assert client.proxy.seen[SCAN] == looks


async def test_a_batch_finds_a_moved_region_without_looking_it_up(client: Client) -> None:
    rows = [b"0000batched-%d" % number for number in range(20 * (GATHERING.calls - 1))]
    await asyncio.gather(*(client.put(row, None, b"1") for row in rows))
    # The first of many calls may leave alone. So the first one goes to another region of the same server.
    moved = await client.region(rows[0])
    others = [one for one in await client.administrator.regions(client.table) if one.server == moved.server]
    neighbour = next(one for one in others if one.name != moved.name).start + b"neighbour"
    assert await client.get(neighbour) is None
    await client.move(rows[0])
    looks, alone, batches = (client.proxy.seen[name] for name in (SCAN, "Get", "Multi"))
    first, *failed = await asyncio.gather(*map(client.get, [neighbour, *rows]), return_exceptions=True)
    assert first is None
    assert all(isinstance(error, NotAppliedError) and "RegionMovedException" in str(error) for error in failed)
    assert client.proxy.seen["Get"] <= alone + 1, "only batches could learn of the move"
    assert client.proxy.seen["Multi"] > batches
    stored = await asyncio.gather(*map(client.get, rows))
    assert all(one is not None and one.value(b"o:v") == b"1" for one in stored)
    assert client.proxy.seen[SCAN] == looks


async def test_a_scan_over_many_regions_ends_though_every_fifth_call_of_it_is_lost(client: Client) -> None:
    """A caller that began such a scan again after each failure would never get past the first regions."""
    rows = [b"%x00ascanned" % number for number in range(16)]
    for row in rows:
        await client.put(row, None, b"1")

    client.proxy.plan = lose_every_fifth_scan
    everything = ScanRange(start=b"", stop=b"", columns=COLUMNS, marked=(b"o:v", b"1"))
    scanned = await Attempts(OPTIONS, "scan").read(
        lambda deadline: client.driver.scan(client.table, everything, 1000, deadline)
    )
    assert [row.key for row in scanned if row.key.endswith(b"scanned")] == rows
    assert [row.key for row in scanned] == sorted({row.key for row in scanned}), "each once, in order"
    assert client.proxy.done[Action.CUT_REPLY] > 0


async def test_a_stream_meets_every_row_once_though_every_fifth_call_of_it_is_lost(client: Client) -> None:
    rows = [b"%x00bstreamed" % number for number in range(16)]
    for row in rows:
        await client.put(row, None, b"1")

    client.proxy.plan = lose_every_fifth_scan
    keys = await streamed(client, 2)
    assert [key for key in keys if key.endswith(b"streamed")] == rows
    assert keys == sorted(set(keys)), "each once, in order"
    assert client.proxy.done[Action.CUT_REPLY] > 0


async def test_a_stream_follows_a_region_that_moves_under_it(client: Client) -> None:
    rows = [b"0000followed-%02d" % number for number in range(12)]
    for row in rows:
        await client.put(row, None, b"1")
    moves = 0

    async def move(met: Sequence[bytes]) -> None:
        nonlocal moves
        if len(met) < len(rows) and moves < 2:
            moves += 1
            await client.move(rows[0])

    keys = await streamed(client, 3, start=rows[0], then=move)
    assert keys[: len(rows)] == rows
    assert keys == sorted(set(keys)), "each once, in order"
    assert moves == 2


async def streamed(
    client: Client, page_rows: int, start: bytes = b"", then: Callable[[Sequence[bytes]], Awaitable[None]] | None = None
) -> list[bytes]:
    """Return the row keys that a stream delivers. Call `then` after each page with all keys so far."""
    met: list[bytes] = []
    rows = ScanRange(start=start, stop=b"g", columns=COLUMNS)
    with closing(client.driver.stream(client.table, rows, page_rows)) as stream:
        while (block := await Attempts(OPTIONS, "stream").read(stream.next)) is not None:
            assert 1 <= len(block) <= page_rows
            met += [key for key, _ in block.rows(COLUMNS)]
            if then is not None:
                await then(met)
    return met


async def test_a_lost_question_for_the_table_leaves_no_doubt_of_the_write(client: Client) -> None:
    """The client had not sent the write, so its outcome is certain."""
    # The first scan looks for the table's regions, the second for the table itself.
    client.proxy.plan = scripted("Scan", [PASS, Step(Action.CUT_REPLY)])
    put = put_of(f"{client.table}_nowhere", b"0000row", None, b"1")
    with pytest.raises(NotAppliedError, match="hbase:meta cannot be read"):
        await client.driver.put_if(put, soon())
    assert client.proxy.done[Action.CUT_REPLY] == 1
    with pytest.raises(LayoutMissingError):
        await client.driver.put_if(put, soon())
