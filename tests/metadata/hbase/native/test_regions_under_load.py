"""Split, merge and move HBase regions and end servers while clients write.

No client receives a wrong result. No client receives an error for trouble that passes within the time of an operation.

Properties: no acknowledged write lost; a version never repeats; an unknown outcome is never reported as known.
"""

import asyncio
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from hedwig.metadata import StoreOptions
from tests.faults.support.sickbay import heal
from tests.metadata.hbase.native.support.administrator import Administrator
from tests.metadata.hbase.native.support.load import Load, Trouble, harm_under_load
from tests.support.servers import RunningServers

OPTIONS: Final = StoreOptions(operation_timeout_s=120.0, regions=4)
MASTER: Final = "hbase-master"


async def _split_and_merge(launcher: DevServers, table: str, load: Load) -> None:
    async with Administrator(launcher.address("hbase")) as administrator:
        first, second, third, _ = await administrator.regions(table)
        await administrator.split(third, b"a000")
        await load.more(100)
        await administrator.merge([first, second])
        await load.more(100)
        starts = [region.start for region in await administrator.regions(table)]
    assert starts == [b"", b"8000", b"a000", b"c000"]


async def _end_master(launcher: DevServers, table: str, load: Load) -> None:
    await asyncio.to_thread(launcher.kill, MASTER)
    await load.more(300)
    await asyncio.to_thread(launcher.start, MASTER)


@pytest.mark.parametrize("trouble", [_split_and_merge, _end_master], ids=["split and merge", "master ends"])
async def test_writers_do_not_notice(trouble: Trouble, servers: RunningServers) -> None:
    servers.address("hbase")
    try:
        (await harm_under_load(servers.launcher, trouble, OPTIONS)).assert_nobody_noticed()
    finally:
        heal(servers.launcher)
