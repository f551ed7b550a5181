"""HBase regions are split, merged and moved, and servers end, while many write: nobody is told anything wrong, and
nobody is told of trouble that passes within the time an operation has.

Properties: no acknowledged write lost; a version never repeats; an unknown outcome is never reported as known.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from cli.dev import DevServers
from metadata import MetadataUrl, StoreOptions, format_metadata, open_metadata
from metadata.attempts import Attempts
from metadata.hbase.native import connect
from metadata.hbase.schema import Tables
from metadata.kinds import OWNERSHIP
from tests.faults.sickbay import heal
from tests.faults.workload import Workload
from tests.metadata.doors import CALLS
from tests.metadata.hbase.native.administrator import Administrator
from tests.servers import RunningServers

DOOR: Final = CALLS[0]
OPTIONS: Final = StoreOptions(operation_timeout_s=120.0, regions=4)
CLIENTS: Final = 24
MASTER: Final = "hbase-master"

Trouble = Callable[[DevServers, str, Workload], Awaitable[None]]


async def _quiet_run(launcher: DevServers, trouble: Trouble, options: StoreOptions = OPTIONS) -> None:
    """Let each of many clients write to a record of its own during `trouble`, and hold every report against the end."""
    namespace = f"u{uuid.uuid4().hex}"
    url = f"hbase://{launcher.address('zookeeper')}/{namespace}"
    await _with_splits_allowed(url, namespace, options)
    await format_metadata(url, options)
    topics = [b"topic-%d" % number for number in range(CLIENTS)]
    async with await open_metadata(url, options) as store, await open_metadata(url, options) as afresh:
        work = Workload(store, DOOR, topics, random.Random(5))
        async with work.running(CLIENTS):
            await work.more(300)
            await trouble(launcher, f"{namespace}:{OWNERSHIP.name}", work)
            await work.more(300)
        await work.judge(afresh)
    assert work.recorder.outcomes["Unknown"] == 0, "nobody but one client writes to a record, so its token tells"
    assert work.recorder.outcomes["NotDone"] == 0, "everything was there again in time"


async def _with_splits_allowed(url: str, namespace: str, options: StoreOptions) -> None:
    """Make the table of the owners beforehand, as our layout makes it, but such that it may be split."""
    spec = next(spec for spec in Tables(namespace).specs(options.regions) if spec.name.endswith(OWNERSHIP.name))
    driver = await connect(MetadataUrl.parse(url), options)
    try:
        # A master that has just begun asks for patience.
        attempts = Attempts(options, "make a table that may be split")
        await attempts.read(lambda deadline: driver.create_namespace(namespace, deadline))
        await attempts.read(lambda deadline: driver.create_table(replace(spec, table_attributes={}), deadline))
    finally:
        await driver.close()


async def _split_and_merge(launcher: DevServers, table: str, work: Workload) -> None:
    async with Administrator(launcher.address("hbase")) as administrator:
        first, second, third, _ = await administrator.regions(table)
        await administrator.split(third, b"a000")
        await work.more(100)
        await administrator.merge([first, second])
        await work.more(100)
        starts = [region.start for region in await administrator.regions(table)]
    assert starts == [b"", b"8000", b"a000", b"c000"]


async def _end_master(launcher: DevServers, table: str, work: Workload) -> None:
    await asyncio.to_thread(launcher.kill, MASTER)
    await work.more(300)
    await asyncio.to_thread(launcher.start, MASTER)


@pytest.mark.parametrize("trouble", [_split_and_merge, _end_master], ids=["split and merge", "master ends"])
async def test_writers_do_not_notice(trouble: Trouble, servers: RunningServers) -> None:
    servers.address("hbase")
    try:
        await _quiet_run(servers.launcher, trouble)
    finally:
        heal(servers.launcher)
