"""Prove that the number of lines that a hub logs in an outage does not grow with its topics."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.errors import HedwigError
from hedwig.metadata import StoreOptions, format_metadata
from hedwig.model import SubscriberId, Topic
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.support.endings import end_all
from tests.support.servers import RunningServers

TOPICS: Final = [Topic(b"topic-%d" % number) for number in range(200)]
AWAY_S: Final = 15.0
LINES_MAX: Final = 100
"""The kinds of lines that an outage has, at most ten times each. One more line a second may come while it lasts.

With 1,000 topics, a minute without ZooKeeper took 2,134 lines, and one without a bookie 1,326. Now they take 87 and 39.
"""
_NUMBERS: Final = re.compile(r"\d+")


class _Load:
    """A client that publishes to all topics in turn, whatever the outcome, and consumes what is delivered."""

    def __init__(self, hub: RunningHub) -> None:
        options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), consume_every=1)
        self._client = HedwigClient(options)
        self._stack = AsyncExitStack()
        self.served = Counter[bytes]()

    async def __aenter__(self) -> "_Load":
        await self._stack.enter_async_context(self._client)
        opened = []
        for begin in range(0, len(TOPICS), 20):
            opened += await asyncio.gather(
                *(self._client.subscribe(topic, SubscriberId(b"ann")) for topic in TOPICS[begin : begin + 20])
            )
        tasks = [asyncio.create_task(self._consume(each)) for each in opened]
        topics = cycle(TOPICS)
        tasks += [asyncio.create_task(self._publish(topics)) for _ in range(20)]
        self._stack.push_async_callback(end_all, tasks)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _publish(self, topics: Iterator[Topic]) -> None:
        for topic in topics:
            try:
                await self._client.publish(topic, b"message")
            except HedwigError:
                await asyncio.sleep(0.05)
            else:
                self.served[topic] += 1

    async def _consume(self, subscription: Subscription) -> None:
        while True:
            try:
                async for _ in subscription:
                    pass
            except HedwigError:
                await asyncio.sleep(0.05)

    async def all_served(self) -> None:
        self.served.clear()
        await until(lambda: len(self.served) == len(TOPICS), "all topics are served", 200.0)


@pytest.fixture
def stack(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    """Three bookies, and the ZooKeeper for all needs of a hub."""
    launcher = servers.beside(tmp_path_factory.mktemp("outage") / "servers")
    try:
        launcher.up(["bookkeeper"], bookies=3)
        yield launcher
    finally:
        launcher.down()


@pytest.mark.timeout(900)
async def test_outages_take_a_few_lines_however_many_topics_there_are(
    servers: RunningServers, stack: DevServers, tmp_path: Path
) -> None:
    zookeeper = f"zookeeper://{stack.address('zookeeper')}"
    metadata = f"{zookeeper}/hedwig/lines"
    await format_metadata(metadata, StoreOptions(stores_file=servers.stores_file))
    settings = (
        f"metadata={metadata}",
        f"stores_file={servers.stores_file}",
        f"cluster.zookeeper={zookeeper}/hedwig/lines",
        f"bookkeeper.zookeeper={zookeeper}{LEDGERS_ROOT}",
        "bookkeeper.ensemble=2",
        "bookkeeper.write_quorum=2",
        "consume_flush_s=1",
        "consume_interval=2",
    )
    with RunningHub(tmp_path, *settings) as hub:
        async with _Load(hub) as load:
            await load.all_served()
            for name in ("zookeeper-1", "bookie-1"):
                before, began = hub.log, time.monotonic()
                await asyncio.to_thread(stack.kill, name)
                await asyncio.sleep(AWAY_S)
                await asyncio.to_thread(stack.start, name)
                await load.all_served()
                said = hub.log[len(before) :].splitlines()
                kinds = Counter(_NUMBERS.sub("N", line)[26:110] for line in said)
                report = "\n".join(f"{count} {kind}" for kind, count in kinds.most_common())
                assert 0 < len(said) < LINES_MAX + time.monotonic() - began, f"{name} away: {len(said)} lines\n{report}"
        await asyncio.to_thread(hub.stop)
