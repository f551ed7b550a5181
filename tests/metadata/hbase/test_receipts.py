"""A receipt shows that a write took effect though the gateway reports it as refused, and is removed by itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedwig.clock import Deadline, SystemClock
from hedwig.metadata import MetadataStore, StoreOptions
from hedwig.metadata.hbase.driver import ConditionalPut
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.hbase.thrift2.driver import Thrift2Driver
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW
from tests.metadata.hbase.conftest import Namespace

OPTIONS = StoreOptions(operation_timeout_s=1.0)


def soon() -> Deadline:
    return Deadline.after(SystemClock(), 30.0)


@asynccontextmanager
async def driver_of(namespace: Namespace, receipt_ttl_s: float) -> AsyncIterator[Thrift2Driver]:
    host, _, port = namespace.gateway.rpartition(":")
    driver = Thrift2Driver(host, int(port), OPTIONS, connections=2, receipt_ttl_s=receipt_ttl_s)
    try:
        yield driver
    finally:
        await driver.close()


def put(namespace: Namespace, row: bytes, expected: bytes | None, value: bytes) -> ConditionalPut:
    return ConditionalPut(
        table=f"{namespace.name}:ownership",
        row=row,
        column=b"o:v",
        expected=expected,
        values={b"o:v": value},
        token=value.rjust(8, b"-"),
        show=(b"o:v",),
    )


async def test_a_repeat_of_an_applied_write_is_reported_as_applied_however_often_it_was_overtaken(
    hbase_store: MetadataStore, namespace: Namespace
) -> None:
    async with driver_of(namespace, 60.0) as driver:
        mine = put(namespace, b"overtaken", None, b"0")
        assert await driver.put_if(mine, soon()) is None
        for number in range(5):
            later = put(namespace, b"overtaken", b"%d" % number, b"%d" % (number + 1))
            assert await driver.put_if(later, soon()) is None
        assert await driver.put_if(mine, soon()) is None, "the gateway says False, the receipt says applied"
        refused = await driver.put_if(put(namespace, b"overtaken", b"0", b"stale"), soon())
        assert refused is not None
        assert refused.proven
        assert refused.current is not None
        assert refused.current.value(b"o:v") == b"5"


async def test_receipts_expire(hbase_store: MetadataStore, namespace: Namespace) -> None:
    async with driver_of(namespace, 2.0) as driver:
        receipt = b"o:~-------1"
        assert await driver.put_if(put(namespace, b"expiring", None, b"1"), soon()) is None
        table = f"{namespace.name}:ownership"
        row = await driver.get(table, b"expiring", (b"o:v", receipt), soon())
        assert row is not None
        assert row.value(receipt) is not None
        async with asyncio.timeout(60):
            while row is not None and row.value(receipt) is not None:
                await asyncio.sleep(0.2)
                row = await driver.get(table, b"expiring", (b"o:v", receipt), soon())
        assert row is not None
        assert row.value(b"o:v") == b"1", "only the receipt goes"


async def test_every_live_write_leaves_a_receipt_that_readers_do_not_see(
    hbase_store: MetadataStore, namespace: Namespace
) -> None:
    topic = Topic(b"receipts")
    hub = HubInfo(host="hub-1", port=4080, epoch=1)
    version = await hbase_store.ownership.write(topic, hub, NEW)
    await hbase_store.ownership.write(topic, hub, version)
    with namespace.happybase() as connection:
        row = connection.table(f"{namespace.name}:ownership").row(topic_key(topic))
    assert sum(column.startswith(b"o:~") for column in row) == 2
    assert [name async for name in hbase_store.ownership.topics(prefix=b"receipts")] == [topic]


async def test_the_tables_are_made_as_the_layout_page_says(hbase_store: MetadataStore, namespace: Namespace) -> None:
    async with driver_of(namespace, 60.0) as driver:
        expected = {"ownership": {"o"}, "persistence": {"p"}, "subscriptions": {"p", "s"}}
        for name, families in expected.items():
            table = await driver.describe_table(f"{namespace.name}:{name}", soon())
            assert set(table.families) == families
            assert len(table.region_servers) == 3
            for attributes in table.families.values():
                assert attributes["NEW_VERSION_BEHAVIOR"] == "false"
                assert attributes["VERSIONS"] == "1"
