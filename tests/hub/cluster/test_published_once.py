"""Prove that each publish has one id, through kills, moves, drains and a migration, and that none has an error."""

import asyncio
import itertools
import random
import signal
import sys
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress, Subscription
from hedwig.model import SubscriberId, Topic
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both_ledgers
from tests.hub.cluster.support.deployment import SESSION_S, Deployment
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.metadata.support.backends import BACKENDS, Surroundings
from tests.support.endings import end_all
from tests.support.servers import RunningServers

ANN = SubscriberId(b"ann")
TOPICS = [Topic(b"topic-%d" % number) for number in range(24)]
_ZOOKEEPER = next(row for row in BACKENDS if row.label == "zookeeper")
IN_FLIGHT = 4
"""Publishes of a topic at a time."""


_MIGRATIONS_MAX = 20
_PROGRAM = (sys.executable, "-c", "from hedwig.cli.main import main; main()")


class Messages:
    """Publishes to all topics and receives from all. Each body is sent by one call of `publish`."""

    def __init__(self, hub: RunningHub) -> None:
        self.published = 0
        self.is_over = False
        self._ids: dict[Topic, dict[bytes, int]] = defaultdict(dict)
        self._received: dict[Topic, dict[bytes, set[int]]] = defaultdict(lambda: defaultdict(set))
        # Not even a migration takes that long. So an error would be one that the client should have spared its caller.
        address = HubAddress.parse(hub.address)
        options = ClientOptions(hub=address, publish_once=True, answer_timeout_s=300.0, silence_s=4.0)
        self._client = HedwigClient(options)
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Messages":
        await self._stack.enter_async_context(self._client)
        for topic in TOPICS:
            subscription = await self._client.subscribe(topic, ANN)
            self._tasks.append(asyncio.create_task(self._receive(topic, subscription)))
        self._publishing = [
            asyncio.create_task(self._publish(topic, number)) for topic in TOPICS for number in range(IN_FLIGHT)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await end_all([*self._publishing, *self._tasks])
        finally:
            await self._stack.aclose()

    async def _publish(self, topic: Topic, worker: int) -> None:
        for number in itertools.count():
            if self.is_over:
                return
            body = b"%d.%d" % (worker, number)
            self._ids[topic][body] = (await self._client.publish(topic, body)).local
            self.published += 1

    async def _receive(self, topic: Topic, subscription: Subscription) -> None:
        async for message in subscription:
            self._received[topic][message.body].add(message.seq_id.local)

    def check_going_on(self) -> None:
        """Fail with the error of a publish that had one, or of a subscription that ended."""
        for task in (*self._publishing, *self._tasks):
            if task.done():
                task.result()

    async def check(self) -> None:
        """End, and check that each body has one id, and came under that id only."""
        self.is_over = True
        await asyncio.gather(*self._publishing)
        await until(
            lambda: all(len(self._received[topic]) >= len(self._ids[topic]) for topic in TOPICS), "the last deliveries"
        )
        for topic in TOPICS:
            ids = self._ids[topic]
            assert {body: {number} for body, number in ids.items()} == dict(self._received[topic])
            assert sorted(ids.values()) == list(range(1, len(ids) + 1)), "each id has one message"


class Unrest:
    """Three hubs, each in a process of its own, and what happens to them."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._random = random.Random(7)
        self.hubs = [deployment.apart("admin_port=0", "admin_host=127.0.0.1") for _ in range(3)]
        self.done: Counter[str] = Counter()
        self._url = deployment.subject.url
        """Where the metadata are."""

    async def start(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(hub.start) for hub in self.hubs))

    async def kill(self) -> None:
        hub = self._random.choice(self.hubs)
        await asyncio.to_thread(hub.kill)
        await asyncio.sleep(self._random.choice((0.0, 6.0)))  # Back before its session ends, or after.
        await asyncio.to_thread(hub.start)
        self.done["kill"] += 1

    async def stand_still(self) -> None:
        """Stop the process of a hub for longer than its session, so that others own its topics when it goes on."""
        hub = self._random.choice(self.hubs)
        assert hub.process is not None
        hub.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(1.75 * SESSION_S)
        finally:
            hub.process.send_signal(signal.SIGCONT)
        self.done["standstill"] += 1

    async def drain(self) -> None:
        admin = AdminClient(self._random.choice(self.hubs).admin)
        await asyncio.to_thread(admin.post, "/drain?state=on")
        await asyncio.sleep(2.0)
        await asyncio.to_thread(admin.post, "/drain?state=off")
        self.done["drain"] += 1

    async def move(self) -> None:
        """Move some topics to another hub."""
        target = self._random.choice(self.hubs)
        moved = self._random.sample(TOPICS, 6)
        # One that moves by itself meanwhile, as after a kill, may not be moved.
        ran = [await self._command("topic", "move", topic.decode(), target.address) for topic in moved]
        self.done["move"] += not all(ran)

    async def migrate(self, url: str) -> None:
        """Copy the metadata to another store, and start all hubs on that."""
        for _ in range(_MIGRATIONS_MAX):
            if not await self._command("metadata", "migrate", "--from", self._url, "--to", url, "--yes"):
                break
            await asyncio.sleep(5.0)  # After a standstill a hub may not know for a while what became of a write.
        else:
            raise AssertionError("the metadata are not migrated")
        self._url = url
        for hub in self.hubs:
            await asyncio.to_thread(hub.kill)
            hub.settings = (f"metadata={url}", *(each for each in hub.settings if not each.startswith("metadata=")))
        await self.start()
        self.done["migration"] += 1

    async def _command(self, *arguments: str) -> int:
        where = ("--metadata", self._url) if arguments[0] == "topic" else ()
        cluster = f"zookeeper://{self._deployment.zookeeper}{self._deployment.prefix}"
        process = await asyncio.create_subprocess_exec(*_PROGRAM, *arguments, *where, "--cluster", cluster)
        return await process.wait()


@pytest.mark.parametrize(
    ("publishes", "rounds"),
    [(4000, 1), pytest.param(100_000, 10, marks=[pytest.mark.full, pytest.mark.timeout(2400)])],
)
@on_both_ledgers
async def test_each_publish_has_one_id(
    deployment: Deployment, servers: RunningServers, tmp_path: Path, publishes: int, rounds: int
) -> None:
    unrest = Unrest(deployment)
    await unrest.start()
    async with Messages(unrest.hubs[0]) as messages:
        for number in range(rounds):
            for disturb in (unrest.move, unrest.kill, unrest.drain, unrest.stand_still):
                await disturb()
                messages.check_going_on()
            if number == rounds // 2:
                target = _ZOOKEEPER.subject(Surroundings(servers, tmp_path))
                await target.format()
                await unrest.migrate(target.url)

        def is_enough() -> bool:
            messages.check_going_on()
            return messages.published >= publishes

        await until(is_enough, "the publishes", 900.0)
        await messages.check()
    assert unrest.done == {"kill": rounds, "drain": rounds, "standstill": rounds, "move": rounds, "migration": 1}
