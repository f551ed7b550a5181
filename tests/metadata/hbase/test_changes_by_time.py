"""Prove that an HBase store loses no change that it reports by time, and none that it reports by tombstones.

The clocks of servers differ, and the sweep removes tombstones. A change that does not fit into memory is reported twice
rather than never.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final, cast

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import MetadataStore, MetadataUrl, RecordKey, StoreOptions, Write, format_metadata, open_metadata
from hedwig.metadata.contract.changes import ChangedRecord, Changes
from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE
from hedwig.metadata.hbase.change_reader import ChangeReader, ReaderRecord
from hedwig.metadata.hbase.changes import MARGIN_MS, HBaseChanges
from hedwig.metadata.hbase.driver import HBaseDriver, Row, ScanRange
from hedwig.metadata.hbase.keys import BUCKETS, bucket_of, bucket_start, topic_key
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.recent_rows import RecentTable
from hedwig.metadata.hbase.schema import Tables
from hedwig.metadata.hbase.thrift2 import Thrift2Driver
from hedwig.metadata.records.stamps import Stamp, make_token
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.outcomes import OutcomeUnknownError
from hedwig.versions import NEW
from tests.metadata.hbase.conftest import Namespace
from tests.support.servers import RunningServers

HUB: Final = HubInfo(host="hub-1", port=4080, epoch=1)
OPTIONS: Final = StoreOptions(regions=3, page_rows=5)
_ALL: Final = 1000
_DAY_S: Final = 24 * 3600.0


class AheadClock(SystemClock):
    """A clock that is some seconds ahead, so that new cells seem old."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wall(self) -> float:
        return time.time() + self._seconds


@pytest.fixture(params=["hbase+thrift", "hbase"])
async def url(request: pytest.FixtureRequest, namespace: Namespace, servers: RunningServers) -> str:
    """Return the URL of the same formatted namespace, for each driver."""
    await format_metadata(namespace.url, OPTIONS)
    servers.address("hbase")
    ways = {"hbase+thrift": namespace.url, "hbase": f"hbase://{servers.address('zookeeper')}/{namespace.name}"}
    return ways[request.param]


@pytest.fixture
async def store(url: str) -> AsyncIterator[MetadataStore]:
    async with await open_metadata(url, OPTIONS) as store:
        yield store


@pytest.fixture
async def driver(url: str) -> AsyncIterator[HBaseDriver]:
    parsed = MetadataUrl.parse(url)
    driver: HBaseDriver
    if parsed.scheme == "hbase":
        driver = await connect(parsed, OPTIONS)
    else:
        ((host, port),) = parsed.endpoints(0)
        driver = Thrift2Driver(host, port, OPTIONS)
    try:
        yield driver
    finally:
        await driver.close()


async def _begun(store: MetadataStore) -> Changes:
    changes = store.changes()
    assert changes is not None
    await changes.begin()
    return changes


def _put(namespace: Namespace, topic: Topic, at_ms: int) -> bytes:
    """Write a record as a server whose clock shows `at_ms` would; return its row key."""
    row = topic_key(topic)
    stamp = Stamp.first(SystemClock(), make_token(OPTIONS.random))
    with namespace.happybase() as connection:
        connection.table(f"{namespace.name}:persistence").put(row, {b"p:v": stamp.encode()}, timestamp=at_ms)
    return row


def _now_ms() -> int:
    return int(time.time() * 1000)


async def test_a_server_whose_clock_is_behind_or_ahead_loses_no_change(
    store: MetadataStore, namespace: Namespace
) -> None:
    changes = await _begun(store)
    for number in range(3):
        behind, ahead = Topic(b"behind-%d" % number), Topic(b"ahead-%d" % number)
        # On this one machine the begin and the put use the same clock, so a minute of the margin is left.
        _put(namespace, behind, _now_ms() - MARGIN_MS + 60_000)
        _put(namespace, ahead, _now_ms() + MARGIN_MS)
        assert {each.key.topic for each in await changes.take(_ALL)} == {behind, ahead}
        assert await changes.take(_ALL) == []
    await changes.end()


async def test_servers_send_only_what_was_written_since(
    driver: HBaseDriver, store: MetadataStore, namespace: Namespace
) -> None:
    now_ms = _now_ms()
    old, limit, new = (
        _put(namespace, Topic(b"written-%d" % ago_s), now_ms - ago_s * 1000) for ago_s in (9_001, 9_000, 8_999)
    )
    columns = (b"p:v",)
    rows = ScanRange(start=b"", stop=bucket_start(BUCKETS), columns=columns, since_ms=now_ms - 9_000_000)
    deadline = Deadline.after(SystemClock(), 30.0)
    keys = {row.key for row in await driver.scan(f"{namespace.name}:persistence", rows, _ALL, deadline)}
    assert {limit, new} <= keys
    assert old not in keys
    everything = await driver.scan(f"{namespace.name}:persistence", replace(rows, since_ms=0), _ALL, deadline)
    assert old in {row.key for row in everything}


async def test_what_does_not_fit_into_memory_is_told_twice(
    driver: HBaseDriver, store: MetadataStore, namespace: Namespace
) -> None:
    tables = Tables(namespace.name)
    reader = ChangeReader(ReaderRecord(tables, driver, OPTIONS), OPTIONS)
    table = RecentTable(PERSISTENCE, tables.name(PERSISTENCE), driver, OPTIONS)
    changes = HBaseChanges([table], reader, known_max=8)
    await changes.begin()
    name = MetadataUrl.parse(store.url.text).scheme.encode()
    keys = [RecordKey(Topic(b"%s-%d" % (name, number))) for number in range(30)]
    await store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
    assert set(keys) <= {each.key for each in await changes.take(_ALL)}
    again = {each.key for each in await changes.take(_ALL)}
    assert len(set(keys) & again) >= len(keys) - 8
    await changes.end()


class _Impatient:
    """A driver whose scans over more than `buckets_max` slices of the keys are never answered."""

    def __init__(self, driver: HBaseDriver, buckets_max: int) -> None:
        self._driver = driver
        self._buckets_max = buckets_max
        self.unanswered = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def scan(self, table: str, rows: ScanRange, limit: int, deadline: Deadline) -> list[Row]:
        stop = BUCKETS if rows.stop == bucket_start(BUCKETS) else bucket_of(rows.stop)
        if stop - bucket_of(rows.start) > self._buckets_max:
            self.unanswered += 1
            raise OutcomeUnknownError("no answer")
        return await self._driver.scan(table, rows, limit, deadline)


async def test_scans_that_outlast_a_call_are_made_smaller(
    driver: HBaseDriver, store: MetadataStore, namespace: Namespace
) -> None:
    impatient = _Impatient(driver, BUCKETS // 100)
    tables = Tables(namespace.name)
    reader = ChangeReader(ReaderRecord(tables, driver, OPTIONS), OPTIONS)
    table = RecentTable(PERSISTENCE, tables.name(PERSISTENCE), cast(HBaseDriver, impatient), OPTIONS)
    changes = HBaseChanges([table], reader)
    await changes.begin()
    keys = [RecordKey(Topic(b"small-%d of %s" % (number, store.url.text.encode()))) for number in range(40)]
    await store.persistence.apply([Write(key, LedgerRanges(), NEW) for key in keys])
    assert {each.key for each in await changes.take(_ALL)} == set(keys)
    assert impatient.unanswered > 2
    await changes.end()


async def test_sweeping_leaves_the_tombstones_that_are_still_to_be_told(
    store: MetadataStore, url: str, namespace: Namespace
) -> None:
    async with await open_metadata(url, replace(OPTIONS, clock=AheadClock(7200.0))) as later:
        # This removes tombstones of other tests.
        await later.sweep()
        keys = [RecordKey(Topic(b"deleted-%d" % number)) for number in range(2)]
        versions = [await store.ownership.write(key.topic, HUB, NEW) for key in keys]
        changes = await _begun(store)
        await store.ownership.delete(keys[0].topic, versions[0])
        assert await later.sweep() == 0, "somebody has still to see that it is gone"
        assert await changes.take(_ALL) == [ChangedRecord(OWNERSHIP, keys[0])]
        async with await open_metadata(url, replace(OPTIONS, clock=AheadClock(_DAY_S + 7200.0))) as next_day:
            assert await next_day.sweep() == 1, "whoever reads so seldom has to begin again"
        await store.ownership.delete(keys[1].topic, versions[1])
        assert await later.sweep() == 0
        await changes.end()
        assert await later.sweep() == 1


async def test_who_reads_too_seldom_has_to_begin_again(driver: HBaseDriver, store: MetadataStore) -> None:
    tables = Tables(MetadataUrl.parse(store.url.text).path.strip("/"))
    reader = ChangeReader(ReaderRecord(tables, driver, OPTIONS), OPTIONS, idle_max_ms=-1)
    await reader.begin()
    with pytest.raises(MetadataUnavailableError, match="begin again"):
        await reader.renew(0)
    with pytest.raises(MetadataUnavailableError, match="begin again"):
        await reader.renew(0)
    await reader.begin()


async def test_a_wiped_store_does_not_go_on_telling(store: MetadataStore, url: str) -> None:
    topic = Topic(b"wiped " + url.encode())
    await store.persistence.write(topic, LedgerRanges(), NEW)
    changes = await _begun(store)
    await format_metadata(url, OPTIONS, wipe=True)
    with pytest.raises(MetadataUnavailableError):
        await changes.take(_ALL)
    await changes.begin()
    await store.persistence.write(topic, LedgerRanges(), NEW)
    assert len(await changes.take(_ALL)) == 1
    await changes.end()


async def test_nothing_is_left_behind(store: MetadataStore, namespace: Namespace) -> None:
    changes = await _begun(store)
    with namespace.happybase() as connection:
        layout = connection.table(f"{namespace.name}:layout")
        assert layout.row(b"changes", columns=[b"m:d"])
        await changes.take(_ALL)
        await changes.end()
        assert not layout.row(b"changes", columns=[b"m:d"])
        # The wait for writes deletes a column that no client ever wrote.
        for table in ("ownership", "persistence", "subscriptions"):
            for _, cells in connection.table(f"{namespace.name}:{table}").scan():
                assert not [column for column in cells if column.endswith(b":~")]
