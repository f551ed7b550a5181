"""Prove that workers which stand by queue anew at the next owner of their topic, and that one of them always serves."""

import asyncio
import sys
from contextlib import AsyncExitStack
from functools import partial

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Opening, Subscription
from hedwig.model import SubscriberId, Topic
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.endings import end_all

T, ANN = Topic(b"T"), SubscriberId(b"ann")
WORKERS = 3
_ADMIN = (sys.executable, "-c", "from hedwig.cli.main import main; main()")


class Workers:
    """Workers that stand by for one subscription, each with a client of its own. `received` has all their messages."""

    def __init__(self, hub: RunningHub) -> None:
        address = HubAddress.parse(hub.address)
        self._options = ClientOptions(hub=address, publish_once=True, answer_timeout_s=120.0, silence_s=4.0)
        self._stack = AsyncExitStack()
        self._openings: list[Opening] = []
        self._served: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.received: list[bytes] = []

    async def __aenter__(self) -> "Workers":
        self.publisher = await self._stack.enter_async_context(HedwigClient(self._options))
        for number in range(WORKERS):
            client = await self._stack.enter_async_context(HedwigClient(self._options))
            opening = client.subscribe(T, ANN, standby=True)
            self._openings.append(opening)
            self._tasks.append(asyncio.create_task(self._work(opening)))
            await until(partial(self._are, number), "it waits")
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await end_all(self._tasks)
        finally:
            await self._stack.aclose()

    async def _work(self, opening: Opening) -> None:
        async with opening as subscription:
            self._served.append(subscription)
            async for message in subscription:
                self.received.append(message.body)

    def _are(self, waiting: int) -> bool:
        """Return whether one worker is attached, and so many wait."""
        places = sorted(each.place for each in self._openings if each.place is not None)
        return sum(each.is_attached for each in self._served) == 1 and places == list(range(1, waiting + 1))

    async def check(self, body: bytes) -> None:
        """Check that one worker gets a message, and that all others wait."""
        await self.publisher.publish(T, body)
        await until(lambda: self.received.count(body) >= 1, f"{body!r} arrives")
        await until(partial(self._are, WORKERS - 1), "the others wait")
        assert self.received.count(body) == 1


async def test_all_queue_anew_at_the_next_owner(deployment: Deployment) -> None:
    hubs = [deployment.apart(), deployment.apart()]
    for hub in hubs:
        await asyncio.to_thread(hub.start)
    one, other = hubs
    await deployment.make(T)
    await _move(deployment, hubs, one)
    async with Workers(one) as workers:
        await workers.check(b"before")
        await _move(deployment, hubs, other)
        await workers.check(b"after a move")
        await asyncio.to_thread(other.kill)
        await workers.check(b"after a kill of the owner")
        await asyncio.to_thread(other.start)
        await _move(deployment, hubs, other)
        await workers.check(b"after a move back")


def _knows_the_other(hub: RunningHub) -> bool:
    return bool(AdminClient(hub.admin).get("/drain")["other_hubs"] == 1)


async def _move(deployment: Deployment, hubs: list[RunningHub], target: RunningHub) -> None:
    """Move the topic, once the hubs know each other."""
    for hub in hubs:
        await until(partial(_knows_the_other, hub), "the hubs know each other")
    cluster = f"zookeeper://{deployment.zookeeper}{deployment.prefix}"
    where = ("--metadata", deployment.subject.url, "--cluster", cluster)
    process = await asyncio.create_subprocess_exec(*_ADMIN, "topic", "move", T.decode(), target.address, *where)
    assert await process.wait() == 0
