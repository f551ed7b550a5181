"""Prove that a fleet of processes outlives kills: each topic is served again, by one of them."""

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.endings import end_all

_WORKER = """
import asyncio, sys
from hedwig.client import HedwigClient

async def main():
    topics = [b"topic %d" % number for number in range(int(sys.argv[2]))]
    async with HedwigClient(sys.argv[1]) as client, client.share(topics, "job") as share:
        async for topic, message in share:
            print(topic.decode(), message.body.decode(), flush=True)

asyncio.run(main())
"""
PUBLISHES_AT_ONCE = 500


class WorkerProcess:
    """A worker in a process of its own. `received` has the topic and the body of each message, as it prints them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.received: list[str] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, address: str, count: int) -> "WorkerProcess":
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", _WORKER, address, str(count), stdout=asyncio.subprocess.PIPE
            )
        )

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.received.append(line.decode().strip())

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)

    async def end(self) -> None:
        self.kill()
        await self.process.wait()
        await end_all([self._reading])


_FULL = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("count", "size", "kills"),
    [pytest.param(500, 4, 1, id="quick"), pytest.param(10_000, 10, 2, id="full", marks=_FULL)],
)
async def test_a_fleet_on_one_hub_outlives_kills(tmp_path: Path, count: int, size: int, kills: int) -> None:
    with RunningHub(tmp_path) as hub:
        await _outlives_kills([hub], count, size, kills)


@pytest.mark.parametrize("deployment", [pytest.param("hbase", marks=_FULL)], indirect=True)
async def test_a_fleet_on_three_hubs_outlives_kills(deployment: Deployment) -> None:
    hubs = [deployment.apart() for _ in range(3)]
    for hub in hubs:
        await asyncio.to_thread(hub.start)
    await _outlives_kills(hubs, 10_000, 10, 2)


async def _outlives_kills(hubs: Sequence[RunningHub], count: int, size: int, kills: int) -> None:
    address = hubs[0].address
    workers = [await WorkerProcess.start(address, count) for _ in range(size)]
    try:
        # Each worker has a subscription besides, through which it knows the others.
        began = time.monotonic()
        await until(lambda: _sum(hubs, "attached_subscriptions") == count + size, "all topics are served", 300.0)
        print(f"{count} topics are served by {size} workers after {time.monotonic() - began:.1f} s")
        await _check(address, workers, count, "before")
        for worker in workers[:kills]:
            worker.kill()
        began = time.monotonic()
        await until(lambda: _sum(hubs, "attached_subscriptions") < count, "the hubs notice it")
        left = count + size - kills
        await until(lambda: _sum(hubs, "attached_subscriptions") == left, "all topics are served again", 120.0)
        print(f"they are served again {time.monotonic() - began:.1f} s after {kills} were killed")
        await _check(address, workers[kills:], count, "after the kills")
        workers.append(await WorkerProcess.start(address, count))
        await until(lambda: _sum(hubs, "attached_subscriptions") == left + 1, "one more takes part", 120.0)
        await until(lambda: not _sum(hubs, "standbys"), "it has its topics", 120.0)
        await _check(address, workers[kills:], count, "after one more has come")
        assert len(workers[-1].received) > count / size / 3, "the new one has its part"
    finally:
        for worker in workers:
            await worker.end()


def _sum(hubs: Sequence[RunningHub], figure: str) -> int:
    """Return the sum of a figure that each hub tells of its load."""
    return sum(int(AdminClient(hub.admin).get("/load")[figure]) for hub in hubs)


async def _check(address: str, workers: Sequence[WorkerProcess], count: int, what: str) -> None:
    """Publish a message to each topic; check that one worker gets each, and that none comes twice.

    Messages of an earlier step do not count: what a killed worker did not consume yet comes again, as it should.
    """
    before = [len(worker.received) for worker in workers]
    async with HedwigClient(ClientOptions(hub=HubAddress.parse(address))) as client:
        for start in range(0, count, PUBLISHES_AT_ONCE):
            some = range(start, min(count, start + PUBLISHES_AT_ONCE))
            await asyncio.gather(*(client.publish(b"topic %d" % number, what.encode()) for number in some))

    def new() -> list[str]:
        lines = (line for worker, number in zip(workers, before, strict=True) for line in worker.received[number:])
        return [line for line in lines if line.endswith(f" {what}")]

    await until(lambda: len(new()) >= count, f"all messages arrive {what}", 120.0)
    assert Counter(new()) == Counter(f"topic {number} {what}" for number in range(count))
