"""The gateway's driver and happybase read what this driver wrote, and the other way round."""

import happybase
import pytest

from hedwig.metadata import open_metadata
from hedwig.metadata.hbase.keys import topic_key
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW, Versioned
from tests.metadata.hbase.native.conftest import OPTIONS, Namespace

NATIVE, GATEWAY = "native", "gateway"
HUB = HubInfo(host="hub-1", port=4080, epoch=1)


@pytest.fixture
def urls(namespace: Namespace) -> dict[str, str]:
    gateway = namespace.servers.address("thrift2")
    return {NATIVE: namespace.url, GATEWAY: f"hbase+thrift://{gateway}/{namespace.name}"}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.label)
@pytest.mark.parametrize(
    ("writer", "reader"), [(NATIVE, GATEWAY), (GATEWAY, NATIVE)], ids=["native first", "gateway first"]
)
async def test_each_driver_goes_on_where_the_other_stopped(
    call: Call, writer: str, reader: str, urls: dict[str, str]
) -> None:
    key = call.key(f"{writer} {call.label}".encode())
    async with await open_metadata(urls[writer], OPTIONS) as one, await open_metadata(urls[reader], OPTIONS) as other:
        first = await call.write(one, key, call.value(1), NEW)
        assert await call.read(other, key) == Versioned(call.value(1), first)
        second = await call.write(other, key, call.value(2), first)
        assert await call.read(one, key) == Versioned(call.value(2), second)
        await call.delete(one, key, second)
        assert await call.read(other, key) is None
        third = await call.write(other, key, call.value(3), NEW)
        assert await call.read(one, key) == Versioned(call.value(3), third)
        assert key.topic in [topic async for topic in call.topics(one)]
        assert [topic async for topic in call.topics(one)] == [topic async for topic in call.topics(other)]


async def test_happybase_reads_what_was_written(namespace: Namespace, urls: dict[str, str]) -> None:
    topic = Topic(b"for the independent reader")
    async with await open_metadata(urls[NATIVE], OPTIONS) as store:
        version = await store.ownership.write(topic, HUB, NEW)
    host, _, port = namespace.servers.address("thrift1").rpartition(":")
    connection = happybase.Connection(host, int(port), timeout=30_000)
    try:
        row = connection.table(namespace.table).row(topic_key(topic))
    finally:
        connection.close()
    assert set(row) == {b"o:v", b"o:d"}, "no receipts are needed"
    assert b"h" + row[b"o:v"] == version.raw
