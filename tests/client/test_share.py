"""Prove that workers share the subscriptions of many topics: each topic has one worker, and few of them move."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from hedwig.client import BlockingClient, ClientOptions, CreateOrAttach, HedwigClient, HubAddress, Share, Subscription
from hedwig.client.subscriptions import members
from hedwig.client.subscriptions.members import RANK_BYTES, rank
from hedwig.errors import ClientNotSubscribedError, InvalidMessageFilterError, SubscriptionClosedError, TopicBusyError
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message
from hedwig.wire import pubsub_pb2 as pb
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.support.endings import end_all

JOB = SubscriberId(b"job")
COUNT = 60


class Worker:
    """A worker with a client of its own. It finishes each message at once, unless `holds` has its body."""

    def __init__(self, share: Share, holds: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self.share = share
        self.received: list[tuple[Topic, bytes]] = []
        self._holds = holds

    async def work(self) -> None:
        async with self.share:
            async for topic, message in self.share:
                self.received.append((topic, message.body))
                if self._holds is not None:
                    await self._holds(message.body)

    @property
    def topics(self) -> set[Topic]:
        return set(self.share.topics)

    def serves(self, topic: Topic) -> bool:
        return topic in self.share.topics

    @property
    def subscriptions(self) -> list[Subscription]:
        return [part.subscription for part in self.share._parts.values() if part.subscription is not None]

    @property
    def is_attached(self) -> bool:
        """Say whether all its subscriptions are attached now."""
        return all(each.is_attached for each in self.subscriptions)


class Fleet:
    """The workers of one test, and the topics that they share."""

    def __init__(self, hub: HubAddress, prefix: Topic) -> None:
        self.options = ClientOptions(hub=hub)
        self.topics = [Topic(b"%s/%d" % (prefix, number)) for number in range(COUNT)]
        self._through = prefix + b"/workers"
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()

    async def client(self) -> HedwigClient:
        return await self._stack.enter_async_context(HedwigClient(self.options))

    async def share(self, **options: object) -> Share:
        client = await self.client()
        return client.share(self.topics, JOB, through=self._through, **options)  # type: ignore[arg-type]

    async def start(self, holds: Callable[[bytes], Awaitable[None]] | None = None, **options: object) -> Worker:
        worker = Worker(await self.share(**options), holds)
        self._tasks[worker] = asyncio.create_task(worker.work())
        return worker

    async def stop(self, worker: Worker) -> None:
        """End a worker in order."""
        await worker.share.close()
        await self._tasks.pop(worker)

    def vanish(self, worker: Worker) -> None:
        """End a worker as a kill does: nothing of it is told to anybody."""
        share = worker.share
        for tasks in (share._members._tasks, share._dividing, share._openings):
            for task in list(tasks._running):
                task.cancel()
        attachments = [each._attachment for each in worker.subscriptions]
        for subscription in worker.subscriptions:
            subscription._resubscribe = False
        for attachment in attachments:
            attachment._channel._writer.transport.abort()  # type: ignore[union-attr]

    def falling_to(self, worker: bytes, other: bytes) -> list[Topic]:
        """Return the topics that `worker` serves beside `other`."""
        return [topic for topic in self.topics if rank(worker, topic) > rank(other, topic)]

    async def divided(self, *workers: Worker) -> list[set[Topic]]:
        """Return the topics of each worker, once each topic has one."""
        await until(partial(self._are_divided, workers), "each topic has one worker", 60.0)
        return [worker.topics for worker in workers]

    def _are_divided(self, workers: tuple[Worker, ...]) -> bool:
        served = Counter(topic for worker in workers for topic in worker.share.topics)
        names = [set(worker.share.workers) for worker in workers]
        return set(served.values()) == {1} and len(served) == COUNT and all(len(each) == len(workers) for each in names)

    async def __aenter__(self) -> "Fleet":
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await end_all(self._tasks.values())
        finally:
            await self._stack.aclose()


@pytest.fixture
async def fleet(own_hub: HubAddress, topic: Topic) -> AsyncIterator[Fleet]:
    async with Fleet(own_hub, topic) as made:
        yield made


async def test_only_what_must_moves(fleet: Fleet) -> None:
    one, two = await fleet.start(), await fleet.start()
    first = await fleet.divided(one, two)
    assert min(map(len, first)) > COUNT / 6, "both have a fair part"
    three = await fleet.start()
    second = await fleet.divided(one, two, three)
    assert second[0] <= first[0]
    assert second[1] <= first[1]
    assert len(second[2]) > COUNT / 10
    await fleet.stop(two)
    third = await fleet.divided(one, three)
    assert second[0] <= third[0]
    assert second[2] <= third[1]


async def test_each_message_goes_to_one_worker(fleet: Fleet) -> None:
    one, two = await fleet.start(), await fleet.start()
    await fleet.divided(one, two)
    publisher = await fleet.client()
    sent = [(topic, b"%d" % number) for number in range(3) for topic in fleet.topics]
    for number, (topic, body) in enumerate(sent):
        await publisher.publish(topic, body)
        if number == COUNT:
            three = await fleet.start()
        if number == 2 * COUNT:
            await fleet.stop(one)
    await until(lambda: len(one.received + two.received + three.received) >= len(sent), "all arrive")
    assert sorted(one.received + two.received + three.received) == sorted(sent)
    for topic in fleet.topics:
        for worker in (one, two, three):
            bodies = [body for name, body in worker.received if name == topic]
            assert bodies == sorted(bodies), "each in order"


async def test_the_topics_of_a_worker_that_vanishes_are_served_by_the_others(fleet: Fleet) -> None:
    one, two, three = [await fleet.start() for _ in range(3)]
    before = await fleet.divided(one, two, three)
    fleet.vanish(three)
    after = await fleet.divided(one, two)
    assert before[0] <= after[0]
    assert before[1] <= after[1]


async def test_a_topic_moves_once_its_message_in_hand_is_finished(fleet: Fleet) -> None:
    release = asyncio.Event()

    async def hold(_: bytes) -> None:
        await release.wait()

    one = await fleet.start(hold, worker="one")
    await fleet.divided(one)
    moving = fleet.falling_to(b"two", b"one")
    publisher = await fleet.client()
    for body in (b"1", b"2"):
        await publisher.publish(moving[0], body)
    await until(lambda: one.received == [(moving[0], b"1")], "a message is in hand")
    two = await fleet.start(worker="two")
    await until(lambda: two.topics == set(moving[1:]), "the others move")
    assert moving[0] not in one.topics
    release.set()
    await until(lambda: two.topics == set(moving), "it moves too")
    await until(lambda: two.received == [(moving[0], b"2")], "what was not in hand goes to the other worker")
    assert one.received == [(moving[0], b"1")]


async def test_an_application_that_consumes_itself_keeps_a_topic_until_then(fleet: Fleet) -> None:
    moving = fleet.falling_to(b"two", b"one")
    publisher = await fleet.client()
    async with await fleet.share(worker="one", auto_consume=False) as share:
        await until(lambda: len(share.topics) == COUNT, "it serves all")
        for topic in moving:
            await publisher.publish(topic, b"1")
        held = dict([await anext(share) for _ in moving])
        two = await fleet.start(worker="two")
        await until(lambda: set(share.topics).isdisjoint(moving), "they know each other")
        for number, topic in enumerate(moving):
            assert len(two.topics) == number, "only what is consumed moves"
            await share.consume(topic, held[topic].seq_id)
            await until(partial(two.serves, topic), "it moves")
        assert not two.received
        with pytest.raises(SubscriptionClosedError):
            await share.consume(moving[0], MessageSeqId(1))


async def test_nobody_is_gone_while_the_hub_is_down(tmp_path: Path, topic: Topic) -> None:
    with RunningHub(tmp_path) as hub:
        async with Fleet(HubAddress.parse(hub.address), topic) as fleet:
            one, two = await fleet.start(), await fleet.start()
            before = await fleet.divided(one, two)
            assert hub.process is not None
            hub.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(6 * 0.5)
            hub.process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(hub.kill)
            await asyncio.sleep(6 * 0.5)
            await asyncio.to_thread(hub.start)
            await until(lambda: one.is_attached and two.is_attached, "all are attached again")
            assert await fleet.divided(one, two) == before


async def test_a_name_belongs_to_one_worker(fleet: Fleet) -> None:
    one = await fleet.start(worker="w1")
    await fleet.divided(one)
    with pytest.raises(TopicBusyError):
        async with await fleet.share(worker="w1"):
            pass
    assert len(one.topics) == COUNT


async def test_workers_with_other_topics_do_not_count(fleet: Fleet) -> None:
    one = await fleet.start()
    await fleet.divided(one)
    fleet.topics.append(Topic(fleet.topics[0] + b"/more"))
    other = await fleet.start()
    await until(lambda: len(other.topics) == 1, "it serves what no other does")
    await asyncio.sleep(1.2)
    assert len(one.topics) == COUNT
    await fleet.stop(one)
    await until(lambda: len(other.topics) == COUNT + 1, "it takes over what it has waited for")


async def test_a_message_of_a_stranger_does_no_harm(fleet: Fleet) -> None:
    one, two = await fleet.start(), await fleet.start()
    await fleet.divided(one, two)
    strange = pb.Message(body=b"stranger")
    strange.header.properties.entries.add(key="x", value=b"")
    encoded = strange.SerializeToString().replace(b"x", b"\xff")
    client = await fleet.client()
    await client.publish(fleet._through, Message.decode(encoded))
    await client.publish(fleet._through, b"")
    await fleet.stop(two)
    assert len((await fleet.divided(one))[0]) == COUNT


async def test_a_filter_that_the_hub_does_not_have_ends_it(fleet: Fleet) -> None:
    share = await fleet.share(preferences=SubscriptionPreferences(message_filter="unknown"))
    async with share:
        with pytest.raises(InvalidMessageFilterError):
            await anext(share)


async def test_what_a_worker_leaves_behind_is_deleted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "_FORGOTTEN_AFTER", 8)
    one, two, three = await fleet.start(), await fleet.start(worker="two"), await fleet.start(worker="three")
    await fleet.divided(one, two, three)
    fleet.vanish(two)
    await fleet.stop(three)
    client = await fleet.client()
    through = fleet._through

    async def are_gone() -> bool:
        gone = []
        for name in ("two", "three"):
            try:
                opened = await client.subscribe(through, name, mode=CreateOrAttach.ATTACH)
            except ClientNotSubscribedError:
                gone.append(name)
            except TopicBusyError:
                pass
            else:
                await opened.close()
        return len(gone) == 2

    for _ in range(600):
        if await are_gone():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the subscriptions are still there")


def test_ranks_move_few_topics() -> None:
    """Ten workers; one more takes a fair part, and nothing moves between the others."""
    names = [b"topic %d" % number for number in range(10_000)]
    workers = [b"worker %d" % number for number in range(11)]

    def best(among: list[bytes], name: bytes) -> bytes:
        return max(rank(worker, name) for worker in among)[RANK_BYTES:]

    before = {name: best(workers[:10], name) for name in names}
    after = {name: best(workers, name) for name in names}
    assert all(850 < count < 1150 for count in Counter(before.values()).values())
    moved = [name for name in names if before[name] != after[name]]
    assert {after[name] for name in moved} == {workers[10]}
    assert 780 < len(moved) < 1040


def test_blocking_workers_share(own_hub: HubAddress, topic: Topic) -> None:
    topics = [topic + b"/%d" % number for number in range(20)]
    options = ClientOptions(hub=own_hub)
    with BlockingClient(options) as one, BlockingClient(options) as other, one.share(topics, JOB) as first:
        _wait(lambda: len(first.topics) == 20)
        with other.share(topics, JOB, auto_consume=False) as second:
            _wait(lambda: len(first.topics) + len(second.topics) == 20 and len(second.topics) > 0)
            for name in topics:
                one.publish(name, b"1")
            received = [(name, message.body) for name, message in first.messages(idle_s=2)]
            for name, message in second.messages(idle_s=2):
                received.append((name, message.body))
                second.consume(name, message.seq_id)
            assert sorted(received) == sorted((name, b"1") for name in topics)
        _wait(lambda: len(first.topics) == 20)
        assert first.receive(0.1) is None, "all is consumed"


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
