"""Prove that hubs take over the topics of a hub that is gone without being asked, and what bounds that."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

from hedwig.errors import HedwigError, LedgerError, LedgerStoreUnavailableError, MetadataUnavailableError
from hedwig.hub.hub import Hub
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.hub.logs.log_context import LogContext
from hedwig.hub.topics.topics import Topics
from hedwig.metadata.contract.operations import Operation, Outcome
from hedwig.metadata.managers import TableOwnershipManager
from hedwig.model import HubInfo, LedgerRanges, MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.versions import NEW, Versioned
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_each_kind, on_zookeeper_first
from tests.hub.cluster.support.deployment import Deployment, bodies_of, liveness_of
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_client import eventually

R = TypeVar("R")

TOPICS: Final = [b"topic-%d" % number for number in range(300)]
USED: Final = TOPICS[:20]
SUBSCRIBER: Final = SubscriberId(b"s")


async def start_one_to_kill(deployment: Deployment, *others: Hub) -> RunningHub:
    """Start a hub that owns all topics, and has messages in those in use."""
    hub = deployment.apart()
    await asyncio.to_thread(hub.start)
    await until(lambda: all(len(liveness_of(other).live) == len(others) + 1 for other in others), "they know it")
    client = await deployment.connect(hub)
    for topic in TOPICS:
        assert (await deployment.ask(client, topic)).status is StatusCode.SUCCESS
    for topic in USED:
        await client.subscribed(topic, SUBSCRIBER)
        for body in (b"one", b"two"):
            await client.request(topic, Publish(Message(body)))
    return hub


async def owners(deployment: Deployment, topics: Sequence[bytes] = TOPICS) -> list[HubInfo | None]:
    return await asyncio.gather(*(deployment.owner(topic) for topic in topics))


def in_order(line: str) -> bool:
    return "cannot be served" not in line and "left until they are asked for" not in line


@on_each_kind
async def test_topics_of_a_killed_hub_are_served_before_anybody_asks(
    deployment: Deployment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs = [await deployment.start() for _ in range(2)]
    monkeypatch.setattr("hedwig.hub.topics.takeover._GRACE_S", 60.0)
    killed = await start_one_to_kill(deployment, *hubs)
    before = [await deployment.store.persistence.read(Topic(topic)) for topic in TOPICS[20:]]
    killed.kill()

    def all_are_served() -> bool:
        return sum(len(hub.topics) for hub in hubs) == len(TOPICS)

    await until(all_are_served, "all topics have an owner again")
    assert set(await owners(deployment)) == {hub.me for hub in hubs}, "each took its share"
    assert sum(hub.counters()["taken_over_topics"] for hub in hubs) == len(TOPICS)
    assert all(in_order(record.getMessage()) for record in caplog.records)
    for topic in USED:
        (hub,) = [hub for hub in hubs if hub.topics.get(Topic(topic)) is not None]
        assert await bodies_of(hub, topic) == [b"one", b"two"]
        client = await deployment.connect(hub)
        answer = await client.request(topic, Publish(Message(b"three")))
        assert answer.published == MessageSeqId(3)
    if deployment.ledgers == "shared":
        after = [await deployment.store.persistence.read(Topic(topic)) for topic in TOPICS[20:]]
        assert after == before, "topics without messages cost no write of their ranges"


@on_zookeeper_first
async def test_nothing_is_taken_from_a_hub_that_is_alive_or_that_lost_it_since(deployment: Deployment) -> None:
    hub, other = [await deployment.start() for _ in range(2)]
    client, to_other = await deployment.connect(hub), await deployment.connect(other)
    found = []
    for topic in (b"kept", b"lost"):
        assert (await deployment.ask(to_other, topic)).status is StatusCode.SUCCESS
        record = await deployment.store.ownership.read(Topic(topic))
        assert record is not None
        found.append((Topic(topic), record))
    assert await hub.topics.take_over(found) == 0
    assert await deployment.owner(b"kept") == other.me
    lost = other.topics.get(Topic(b"lost"))
    assert lost is not None
    await other.topics.release(lost)
    third = await deployment.start()
    assert (await deployment.ask(await deployment.connect(third), b"lost")).status is StatusCode.SUCCESS
    gone = other.me
    await other.close()
    await until(lambda: gone not in {each.info for each in liveness_of(hub).live}, "it is gone")
    assert await hub.topics.take_over(found) == 0
    assert await deployment.owner(b"lost") == third.me
    assert (await deployment.ask(client, b"kept")).status is StatusCode.SUCCESS


@on_zookeeper_first
async def test_a_topic_whose_record_is_gone_is_not_made(deployment: Deployment) -> None:
    hub = await deployment.start()
    killed = await start_one_to_kill(deployment, hub)
    killed.kill()
    # Nobody can take over yet, since its session lasts.
    gone = Topic(TOPICS[-1])
    record = await deployment.store.persistence.read(gone)
    assert record is not None
    await deployment.store.persistence.delete(gone, record.version)
    await until(lambda: len(hub.topics) == len(TOPICS) - 1, "all other topics are taken over")

    async def has_no_owner() -> bool:
        return await deployment.owner(gone) is None

    await eventually(has_no_owner, "nobody owns it")
    assert await deployment.store.persistence.read(gone) is None


@on_zookeeper_first
async def test_requests_wait_for_a_takeover_that_is_under_way(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await deployment.start()
    killed = await start_one_to_kill(deployment, hub)
    read_ranges, may_go_on, is_under_way = Topics._read_ranges, asyncio.Event(), asyncio.Event()

    async def read_later(self: Topics, names: Sequence[Topic]) -> object:
        is_under_way.set()
        await may_go_on.wait()
        return await read_ranges(self, names)

    monkeypatch.setattr(Topics, "_read_ranges", read_later)
    killed.kill()
    await is_under_way.wait()
    waiting = next(name for name, each in hub.topics._acquisitions.items() if each.running is not None)
    client = await deployment.connect(hub)
    asked = asyncio.ensure_future(client.request(bytes(waiting), Publish(Message(b"m"))))
    await until(lambda: bool(hub.topics._acquisitions[waiting].waiters), "it waits")
    assert not asked.done()
    may_go_on.set()
    assert (await asked).status is StatusCode.SUCCESS
    await until(lambda: len(hub.topics) == len(TOPICS), "all topics are taken over")
    assert not hub.topics.acquiring


@on_zookeeper_first
@pytest.mark.parametrize("what", ["all ranges", "ranges of one", "log of one", "claim of one"])
async def test_what_fails_is_given_back_and_taken_over_later(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    hub = await deployment.start()
    killed = await start_one_to_kill(deployment, hub)
    read_ranges, take_over, apply = Topics._read_ranges, DurableLog.take_over, TableOwnershipManager.apply
    left = 3

    def fails(*topics: Topic) -> bool:
        nonlocal left
        is_failure = left > 0 and (what == "all ranges" or TOPICS[0] in topics)
        left -= is_failure
        return is_failure

    def first_failed(topics: Sequence[Topic], outcomes: Sequence[Outcome[R]], error: HedwigError) -> list[Outcome[R]]:
        failing = fails(*topics)
        pairs = zip(topics, outcomes, strict=True)
        return [Outcome(error=error) if failing and topic == TOPICS[0] else outcome for topic, outcome in pairs]

    async def read(self: Topics, names: Sequence[Topic]) -> Sequence[Outcome[LedgerRanges]]:
        error = MetadataUnavailableError("nobody answers")
        if what == "all ranges" and fails():
            raise error
        found = await read_ranges(self, names)
        return first_failed(names, found, error) if what == "ranges of one" else found

    async def open_log(
        store: LogContext, topic: Topic, record: Versioned[LedgerRanges], *, is_shut_out: bool
    ) -> DurableLog:
        if what == "log of one" and fails(topic):
            raise LedgerStoreUnavailableError("nobody answers")
        return await take_over(store, topic, record, is_shut_out=is_shut_out)

    async def claim(
        self: TableOwnershipManager, operations: Sequence[Operation[HubInfo]]
    ) -> Sequence[Outcome[HubInfo]]:
        names = [operation.key.topic for operation in operations]
        if what == "claim of one" and fails(*names):
            done = await apply(self, [operation for operation in operations if operation.key.topic != TOPICS[0]])
            done.insert(names.index(Topic(TOPICS[0])), Outcome(error=MetadataUnavailableError("nobody answers")))
            return done
        return await apply(self, operations)

    monkeypatch.setattr(Topics, "_read_ranges", read)
    monkeypatch.setattr(DurableLog, "take_over", open_log)
    monkeypatch.setattr(TableOwnershipManager, "apply", claim)
    monkeypatch.setattr("hedwig.hub.topics.takeover._RETRY_S", 0.2)
    killed.kill()
    await until(lambda: len(hub.topics) == len(TOPICS), "all topics are taken over")
    assert not left
    assert any("not taken over yet: nobody answers" in record.getMessage() for record in caplog.records)
    assert set(await owners(deployment)) == {hub.me}


@on_zookeeper_first
async def test_a_topic_that_cannot_be_served_is_given_back_alone(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub = await deployment.start()
    killed = await start_one_to_kill(deployment, hub)
    (before,) = await owners(deployment, TOPICS[:1])
    take_over, is_damaged = DurableLog.take_over, True

    async def fail_for_one(
        store: LogContext, topic: Topic, record: Versioned[LedgerRanges], *, is_shut_out: bool
    ) -> DurableLog:
        if topic == TOPICS[0] and is_damaged:
            raise LedgerError("its ledger is damaged")
        return await take_over(store, topic, record, is_shut_out=is_shut_out)

    monkeypatch.setattr(DurableLog, "take_over", fail_for_one)
    caplog.set_level(logging.INFO)
    killed.kill()
    await until(lambda: any("took over" in record.getMessage() for record in caplog.records), "it is through")
    assert len(hub.topics) == len(TOPICS) - 1
    assert any("1 of " in (line := record.getMessage()) and "is damaged" in line for record in caplog.records)
    assert await owners(deployment, TOPICS[:1]) == [before]
    is_damaged = False
    client = await deployment.connect(hub)
    assert (await client.request(TOPICS[0], Publish(Message(b"three")))).published == MessageSeqId(3)


@on_zookeeper_first
async def test_a_hub_takes_over_what_its_predecessor_left(deployment: Deployment) -> None:
    killed = await start_one_to_kill(deployment)
    left = await owners(deployment)
    killed.kill()
    await asyncio.to_thread(killed.start)

    async def all_are_its() -> bool:
        found = await owners(deployment)
        return len(set(found)) == 1 and found != left

    await eventually(all_are_its, "the new hub owns all topics of the old one")


@on_zookeeper_first
async def test_what_nobody_may_take_over_stays(deployment: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    """With a rate of 0, a draining hub, and a hub that is full."""
    off = await deployment.start(cluster={"takeover_rate": 0})
    full = await deployment.start(topics_max=1)
    draining = await deployment.start()
    client = await deployment.connect(full)
    assert (await deployment.ask(client, b"its own")).status is StatusCode.SUCCESS
    assert draining.shape.balance is not None
    draining.shape.balance.drain(True)
    killed = await start_one_to_kill(deployment, off, full, draining)
    killed.kill()
    caplog.set_level(logging.INFO)

    def have_looked() -> bool:
        return sum("leaves the topics of hub" in record.getMessage() for record in caplog.records) == 2

    await until(have_looked, "two hubs have seen it, and take none")
    assert [len(hub.topics) for hub in (off, full, draining)] == [0, 1, 0]


async def test_what_a_hub_has_not_released_at_its_end_is_looked_for(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hub = await deployment.start()
    for is_left in (False, True):
        other = await deployment.start()
        await until(lambda: len(liveness_of(hub).live) == 2, "they know each other")
        client = await deployment.connect(other)
        for topic in USED:
            assert (await deployment.ask(client, topic)).status is StatusCode.SUCCESS
        if is_left:
            await deployment.make(b"odd")
            await deployment.store.ownership.write(Topic(b"odd"), other.me, NEW)
        await other.close()
        await until(lambda: len(liveness_of(hub).live) == 1, "it is gone")
        if is_left:
            await until(lambda: hub.topics.get(Topic(b"odd")) is not None, "what it left is taken over")
        assert len(hub.topics) == is_left
    assert sum("takes over the topics" in record.getMessage() for record in caplog.records) == 1
