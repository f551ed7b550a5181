"""Regions move between three region servers, and servers end one by one and all at once, while clients write.

The tables have many HBase regions. No client receives a wrong result. No client receives an error for trouble that
passes within the time of an operation.

Properties: no acknowledged write lost; a version never repeats; an unknown outcome is never reported as known.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from hedwig.metadata import StoreOptions
from hedwig.metadata.hbase.native.wire.failures import ServerFailure
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from tests.faults.support.sickbay import heal
from tests.metadata.hbase.native.support.administrator import Administrator
from tests.metadata.hbase.native.support.load import Load, Trouble, harm_under_load
from tests.support.servers import RunningServers

PATIENT_S: Final = 180.0
"""More than any fault here lasts, even on a busy machine."""

HANGING_S: Final = 90.0
"""A third of this passes before the driver gives up an unanswered call."""

HASTY_S: Final = 5.0
WARM_WRITES: Final = 300
"""Servers that have just begun are slow, and may be for seconds on a busy machine. So many writes warm them up."""
PAUSE_MAX_S: Final = 1.5
"""An operation that has less time left than its next pause gives up."""

MASTER: Final = "hbase-master"
REGION_SERVERS: Final = ("regionserver-1", "regionserver-2", "regionserver-3")


@pytest.fixture
async def three(servers: RunningServers) -> AsyncIterator[DevServers]:
    """Run a cluster of three region servers, and restore it after the test."""
    running = servers.on_three
    running.address("hbase")
    try:
        yield running.launcher
    finally:
        await asyncio.to_thread(heal, running.launcher)


async def _all_at_once(act: Callable[[str], None]) -> None:
    await asyncio.gather(*(asyncio.to_thread(act, name) for name in (MASTER, *REGION_SERVERS)))


async def _move(launcher: DevServers, table: str, load: Load) -> None:
    """Move every region twice. Each move takes the region to another server."""
    async with Administrator(launcher.address("hbase")) as administrator:
        for _ in range(2):
            before = await administrator.regions(table)
            for at in range(0, len(before), 8):
                await asyncio.gather(*(administrator.move(region) for region in before[at : at + 8]))
                await load.more(20)
            after = {region.name: region.server for region in await administrator.regions(table)}
            assert [region.name for region in before] == list(after)
            moved = sum(after[region.name] != region.server for region in before)
            assert moved > len(before) // 2, f"only {moved} of {len(before)} regions moved"


async def _kill_a_region_server(launcher: DevServers, table: str, load: Load) -> None:
    """Kill a region server. Its regions move to the others."""
    async with Administrator(launcher.address("hbase")) as administrator:
        before = await administrator.regions(table)
        busy = before[0].server.port
        assert len({region.server for region in before}) == len(REGION_SERVERS)
        name = next(one.name for one in launcher.status() if one.port == busy)
        await asyncio.to_thread(launcher.kill, name)
        await load.more(600)
        # Clients wrote to all regions meanwhile, but perhaps none used the region that opened last.
        async with asyncio.timeout(PATIENT_S):
            while len(await _open_elsewhere(administrator, table, busy)) < len(before):
                await load.more(10)


async def _open_elsewhere(administrator: Administrator, table: str, port: int) -> list[bytes]:
    """Return the regions that are open on servers other than that at `port`; none while hbase:meta is nowhere."""
    try:
        return [region.name for region in await administrator.regions(table) if region.server.port != port]
    except (ServerFailure, NotAppliedError, OutcomeUnknownError, OSError):
        return []


async def _restart_master(launcher: DevServers, table: str, load: Load) -> None:
    await asyncio.to_thread(launcher.stop, MASTER)
    await load.more(300)
    await asyncio.to_thread(launcher.start, MASTER)
    await load.more(100)
    await asyncio.to_thread(launcher.kill, MASTER)
    await load.more(300)
    await asyncio.to_thread(launcher.start, MASTER)


async def _restart_everything(launcher: DevServers, table: str, load: Load) -> None:
    pids = {name: launcher.pid(name) for name in (MASTER, *REGION_SERVERS)}
    for end in (launcher.stop, launcher.kill):
        await _all_at_once(end)
        await asyncio.to_thread(heal, launcher)
        await load.more(100)
        now = {name: launcher.pid(name) for name in pids}
        assert all(now[name] != pids[name] for name in pids), "the servers were really other ones"
        pids = now


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(_move, id="moves"),
        pytest.param(_kill_a_region_server, id="a region server is killed"),
        pytest.param(_restart_master, id="the master restarts"),
        pytest.param(_restart_everything, id="everything restarts"),
    ],
)
async def test_writers_to_64_regions_do_not_notice(trouble: Trouble, three: DevServers) -> None:
    options = StoreOptions(operation_timeout_s=PATIENT_S, regions=64)
    (await harm_under_load(three, trouble, options)).assert_nobody_noticed()


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_a_region_server_that_hangs_is_left_in_time(three: DevServers) -> None:
    """A hanging server keeps its connections open and sends nothing. A call to it must leave time for another one."""

    async def trouble(launcher: DevServers, table: str, load: Load) -> None:
        async with Administrator(launcher.address("hbase")) as administrator:
            before = await administrator.regions(table)
            # HBase itself takes minutes to leave a server with hbase:meta that hangs.
            meta = await administrator.meta_server()
            port = next(region.server.port for region in before if region.server != meta)
            name = next(one.name for one in launcher.status() if one.port == port)
            await asyncio.to_thread(launcher.pause, name)
            async with asyncio.timeout(PATIENT_S):
                while len(await _open_elsewhere(administrator, table, port)) < len(before):
                    await load.more(10)
            await load.more(300)
            # On a local disk, nothing would stop a resumed server from writing to its old log.
            await asyncio.to_thread(launcher.kill, name)

    options = StoreOptions(operation_timeout_s=HANGING_S, regions=64)
    (await harm_under_load(three, trouble, options)).assert_nobody_noticed()


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_only_those_fail_whose_time_passed_while_the_servers_were_away(three: DevServers) -> None:
    """Kill all servers for longer than an operation may take: each error comes at its deadline, within the outage."""
    outages: list[tuple[float, float]] = []

    async def trouble(launcher: DevServers, table: str, load: Load) -> None:
        began = time.monotonic()
        await _all_at_once(launcher.kill)
        await asyncio.to_thread(heal, launcher)
        async with Administrator(launcher.address("hbase")) as administrator, asyncio.timeout(PATIENT_S):
            while not await administrator.all_regions_answer(table):
                await load.more(1)
        await load.more(WARM_WRITES)
        outages.append((began, time.monotonic()))

    load = await harm_under_load(three, trouble, StoreOptions(operation_timeout_s=HASTY_S, regions=64))
    ((began, ended),) = outages
    assert load.door.failures, "the servers were away for longer than an operation has"
    for failure in load.door.failures:
        assert failure.end - failure.start >= HASTY_S - PAUSE_MAX_S, f"it gave up early: {failure}"
        assert began < failure.end
        assert failure.start < ended, f"everything was well: {failure}"


@pytest.mark.full
@pytest.mark.timeout(400)
async def test_moves_and_a_killed_region_server_pass_unnoticed(three: DevServers) -> None:
    async def trouble(launcher: DevServers, table: str, load: Load) -> None:
        await _move(launcher, table, load)
        await _kill_a_region_server(launcher, table, load)

    options = StoreOptions(operation_timeout_s=PATIENT_S, regions=12)
    (await harm_under_load(three, trouble, options)).assert_nobody_noticed()
