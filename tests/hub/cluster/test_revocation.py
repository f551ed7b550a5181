"""Prove how soon a right ends at three hubs under load, whichever store keeps the rules."""

import asyncio
import os
import signal
import sys
import time
from contextlib import AsyncExitStack
from typing import Final

import pytest

from hedwig.access import Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.errors import NotPermittedError, SubscriptionClosedError
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import SubscriberId, Topic
from tests.chaos.support.starvation import waited_most_s, waits_s
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment
from tests.support.checkout import CHECKOUT
from tests.support.endings import end_all

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

_HUBS: Final = 3
_TOPICS: Final = [Topic(b"load/%d" % number) for number in range(60)]
_PAUSE_S: Final = 0.01
_LATE_MAX_S: Final = 5.0
"""How much later a busy machine may make it."""
_RULES: Final = (
    Rule.parse("allow user:local publish,create load/*"),
    Rule.parse("allow user:local subscribe load/* as ann"),
)
_MAIN: Final = "from hedwig.cli.main import main; main()"
_KILLED: Final = f"""
import os, signal
from hedwig.metadata.access.records import AccessRecords

async def die(self):
    os.kill(os.getpid(), signal.SIGKILL)

AccessRecords._count_change = die
{_MAIN}
"""
"""The command dies after it has written the rules, and before it says that there has been a change."""


class _Load:
    """Publishers and subscribers of all topics, and when something of theirs last succeeded."""

    def __init__(self, clients: list[HedwigClient]) -> None:
        self.published = self.delivered = 0
        self.published_at = self.delivered_at = 0.0
        self.tasks: list[asyncio.Task[None]] = []
        self._clients = clients

    async def begin(self) -> None:
        ann = SubscriberId(b"ann")
        for number, topic in enumerate(_TOPICS):
            client = self._clients[number % len(self._clients)]
            self.tasks.append(asyncio.create_task(self._receive(await client.subscribe(topic, ann))))
            self.tasks.append(asyncio.create_task(self._publish(client, topic)))

    async def _publish(self, client: HedwigClient, topic: Topic) -> None:
        while True:
            try:
                await client.publish(topic, b"m")
            except NotPermittedError:
                return
            self.published += 1
            self.published_at = time.monotonic()
            await asyncio.sleep(_PAUSE_S)

    async def _receive(self, subscription: Subscription) -> None:
        try:
            async for _ in subscription:
                self.delivered += 1
                self.delivered_at = time.monotonic()
        except SubscriptionClosedError:
            return


@pytest.mark.parametrize(
    "deployment", ["zookeeper", "hbase", pytest.param("hbase+thrift", marks=pytest.mark.open_servers)], indirect=True
)
@pytest.mark.parametrize(
    ("program", "status", "within_s"),
    [pytest.param(_MAIN, 0, 3.0, id="denied"), pytest.param(_KILLED, -signal.SIGKILL, 60.0, id="killed")],
)
async def test_a_right_ends_under_load_at_all_hubs(
    deployment: Deployment, program: str, status: int, within_s: float
) -> None:
    await RuleRecords(deployment.store.named_records).change("user:local", lambda _: _RULES)
    hubs = [deployment.apart("access.mode=rules") for _ in range(_HUBS)]
    for hub in hubs:
        await asyncio.to_thread(hub.start)
    async with AsyncExitStack() as stack:
        options = [ClientOptions(hub=HubAddress("127.0.0.1", hub.port)) for hub in hubs]
        load = _Load([await stack.enter_async_context(HedwigClient(each)) for each in options])
        stack.push_async_callback(end_all, load.tasks)
        await load.begin()
        await until(lambda: load.published > 20 * len(_TOPICS) < load.delivered, "messages come through")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, "access", "deny", "user:local", "*", "load/*"),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HEDWIG_METADATA": deployment.subject.url},
        )
        pids = [os.getpid(), *(hub.pid for hub in hubs)]
        waits = waits_s(pids)
        assert await process.wait() == status
        returned_at, published, delivered = time.monotonic(), load.published, load.delivered
        async with asyncio.timeout(300):
            await asyncio.gather(*load.tasks)
    waited_s = waited_most_s(waits, waits_s(pids))
    published_s, delivered_s = load.published_at - returned_at, load.delivered_at - returned_at
    print(
        f"after the command: {load.published - published} publishes were accepted, the last after {published_s:.2f} s, "
        f"and {load.delivered - delivered} messages delivered, the last after {delivered_s:.2f} s; a process waited "
        f"{waited_s:.2f} s for a processor"
    )
    # A hub under load waits for a processor all the time. That delays one look at the rules, not all of them.
    assert max(published_s, delivered_s) < within_s + min(waited_s, _LATE_MAX_S)
