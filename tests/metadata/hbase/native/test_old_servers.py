"""Prove that the driver detects servers that would ignore the conditions of batched writes before it sends them any."""

import asyncio

import pytest

from hedwig.errors import ConfigurationError
from hedwig.metadata import MetadataUrl
from hedwig.metadata.hbase.driver import ConditionalPut
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.native.wire.regions import Server
from tests.metadata.hbase.native.conftest import OPTIONS, Doors, Namespace, soon
from tests.metadata.hbase.native.support.rewriter import OldServer


def at(address: str) -> Server:
    host, _, port = address.rpartition(":")
    return Server(host, int(port))


async def test_an_old_master_is_refused_when_a_store_is_opened(namespace: Namespace) -> None:
    async with OldServer(at(namespace.master)) as old:
        with pytest.raises(ConfigurationError, match=r"HBase 2\.3\.7 .* needs 2\.4\.0 or later"):
            await connect(MetadataUrl.parse(namespace.url), OPTIONS, old.route)


async def test_an_old_region_server_among_new_ones_gets_no_batches(namespace: Namespace, doors: Doors) -> None:
    """During an upgrade the master may be new already. So the driver asks the region server, by a harmless batch."""
    async with OldServer(at(namespace.region_server)) as old:
        driver = await doors.driver(old.route)

        def put(number: int, expected: bytes | None, value: bytes) -> ConditionalPut:
            return ConditionalPut(
                table=namespace.table,
                row=b"0000old-%d" % number,
                column=b"o:v",
                expected=expected,
                values={b"o:v": value},
                token=b"12345678",
                show=(b"o:v",),
            )

        for value, expected in ((b"1", None), (b"2", b"1")):
            done = await asyncio.gather(*(driver.put_if(put(number, expected, value), soon()) for number in range(300)))
            assert done == [None] * 300
        refused = await asyncio.gather(*(driver.put_if(put(number, b"1", b"3"), soon()) for number in range(300)))
        for one in refused:
            assert one is not None
            assert one.current is not None
            assert one.current.value(b"o:v") == b"2", "refused means refused"
        assert old.batched_puts == 0
        assert old.calls.total() >= 900


async def test_a_new_region_server_gets_batches(namespace: Namespace, doors: Doors) -> None:
    driver = await doors.driver()
    rows = [b"4000new-%d" % number for number in range(1000)]
    puts = [
        ConditionalPut(
            table=namespace.table,
            row=row,
            column=b"o:v",
            expected=None,
            values={b"o:v": row},
            token=b"12345678",
            show=(b"o:v",),
        )
        for row in rows
    ]
    done = await asyncio.gather(*(driver.put_if(put, soon()) for put in puts))
    assert done == [None] * len(rows)
    stored = await asyncio.gather(*(driver.get(namespace.table, row, (b"o:v",), soon()) for row in rows))
    assert [one.value(b"o:v") for one in stored if one is not None] == rows
    refused = await asyncio.gather(*(driver.put_if(put, soon()) for put in puts))
    assert [one.current.value(b"o:v") for one in refused if one is not None and one.current is not None] == rows
