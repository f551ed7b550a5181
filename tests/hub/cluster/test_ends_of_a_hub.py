"""Prove what happens to the topics of a hub that is stopped in order, and of one that is killed."""

import asyncio
import os
import time

from hedwig.metadata.logs.record import LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.status import StatusCode
from tests.chaos.support.starvation import waited_most_s, waits_s
from tests.faults.support.proxy import PASS, Action, Exchange, Step
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both_ledgers, on_each_kind
from tests.hub.cluster.support.deployment import SESSION_S, Deployment, liveness_of
from tests.hub.cluster.support.traffic import Traffic
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.wire_client import eventually

TOPICS = [b"topic-%d" % number for number in range(30)]


@on_each_kind
async def test_hub_that_is_stopped_leaves_its_topics_to_others_at_once(deployment: Deployment) -> None:
    raw = deployment.raw()
    other = await deployment.start()
    stopped = deployment.apart()
    await asyncio.to_thread(stopped.start)
    client, to_other = await deployment.connect(stopped), await deployment.connect(other)
    for topic in TOPICS:
        await client.subscribed(topic, b"ann")
        assert await client.publish(topic, b"first") == 1
    assert await client.delivered(len(TOPICS)) == [1] * len(TOPICS)
    for topic in TOPICS:
        client.consume(topic, b"ann", 1)
    await client.barrier()
    before = deployment.registered_at(raw, stopped.port)
    assert before is not None
    await asyncio.to_thread(stopped.stop)
    assert deployment.epoch_of(raw, before.address) is None
    assert not [name for name in raw.get_children(f"{deployment.prefix}/endpoints") if before.address in name]
    # All records are gone, so no hub has to find out whether the owner is alive.
    assert [await deployment.owner(topic) for topic in TOPICS] == [None] * len(TOPICS)
    logs = KeptLogRecords(deployment.store.named_records)
    numbers = [number async for number in logs.numbers()]
    if deployment.ledgers == "shared":
        (log,) = [await logs.read(number) for number in numbers]
        assert log is not None
        assert log.state is LogState.CLOSED, "nobody has to shut it out"
    for topic in TOPICS:
        assert await to_other.publish(topic, b"second") == 2
        await to_other.subscribed(topic, b"ann")
    assert await to_other.delivered(len(TOPICS)) == [2] * len(TOPICS), "what was consumed is not delivered again"


async def test_hub_that_is_closing_is_passed_over_while_it_releases_its_topics(deployment: Deployment) -> None:
    armed = False

    def plan(_: Exchange) -> Step:
        nonlocal armed
        was_armed, armed = armed, False
        return Step(Action.HOLD_REQUEST) if was_armed else PASS

    proxy, subject = await deployment.behind_proxy(plan)
    stopped = await deployment.start(subject=subject)
    asked, third = [await deployment.start(cluster={"placement": "uniform"}) for _ in range(2)]
    client, to_stopped = await deployment.connect(asked), await deployment.connect(stopped)
    assert is_owner(await deployment.ask(to_stopped, b"t"))
    await until(lambda: len(liveness_of(asked).live) == 3, "the hubs know each other")
    armed = True
    closing = asyncio.create_task(stopped.close())
    try:
        await until(lambda: proxy.done[Action.HOLD_REQUEST] == 1, "a topic is being released")

        def is_announced() -> bool:
            return any(hub.info == stopped.me and hub.is_draining for hub in liveness_of(asked).live)

        await until(is_announced, "it is known that it ends")
        answers = [await deployment.ask(client, topic, should_claim=False) for topic in TOPICS]
        assert {answer.text for answer in answers if not is_owner(answer)} == {third.me.address}
        assert not closing.done()
    finally:
        proxy.release()
        await closing
    assert await deployment.owner(b"t") is None


@on_both_ledgers
async def test_topics_of_a_killed_hub_are_served_again_within_its_session_and_two_seconds(
    deployment: Deployment,
) -> None:
    other = await deployment.start()
    killed = deployment.apart()
    await asyncio.to_thread(killed.start)
    await until(lambda: len(liveness_of(other).live) == 2, "it knows the one that will be killed")
    client, to_other = await deployment.connect(killed), await deployment.connect(other)
    for topic in TOPICS:
        await client.subscribed(topic, b"ann")
        assert await client.publish_many(topic, b"a", b"b", b"c") == [1, 2, 3]
    waits = waits_s([os.getpid()])
    killed.kill()
    killed_at = time.monotonic()

    async def served() -> bool:
        answer = await deployment.ask(to_other, TOPICS[0])
        assert answer.status in (StatusCode.SUCCESS, StatusCode.NOT_RESPONSIBLE_FOR_TOPIC)
        return answer.status is StatusCode.SUCCESS

    await eventually(served, "the first topic is served again")
    answers = await asyncio.gather(*(deployment.ask(to_other, topic) for topic in TOPICS))
    assert all(is_owner(answer) for answer in answers)
    took_s = time.monotonic() - killed_at
    # A busy machine may have kept this process from running. The other hub runs in it, and what it asked of ZooKeeper
    # and of bookies waited there once more.
    assert took_s < SESSION_S + 2 + 2 * waited_most_s(waits, waits_s([os.getpid()]))
    for topic in TOPICS:
        assert await to_other.publish(topic, b"d") == 4
        await to_other.subscribed(topic, b"ann")
        assert await to_other.delivered(4) == [1, 2, 3, 4]


@on_both_ledgers
async def test_no_message_is_lost_over_a_stop_and_a_kill(deployment: Deployment) -> None:
    first = await deployment.start()
    stopped, killed = deployment.apart("cluster.placement=uniform"), deployment.apart("cluster.placement=uniform")
    for hub in (stopped, killed):
        await asyncio.to_thread(hub.start)
    await until(lambda: len(liveness_of(first).live) == 3, "the hubs know each other")
    clients = [await deployment.connect(hub) for hub in (first, stopped, killed)]
    for number, topic in enumerate(TOPICS):
        assert is_owner(await deployment.ask(clients[number % 3], topic))
    async with Traffic(f"127.0.0.1:{first.port}", TOPICS) as traffic:
        await until(lambda: traffic.published > 100, "messages are published")
        await asyncio.to_thread(stopped.stop)
        await until(lambda: len(liveness_of(first).live) == 2, "one was stopped")
        killed.kill()
        await until(lambda: len(first.topics) == len(TOPICS), "all topics are served again")
        before = traffic.published
        await until(lambda: traffic.published > before + 100, "messages are published")
        await traffic.settle()


@on_both_ledgers
async def test_hub_that_was_killed_starts_again_at_its_address_at_once(deployment: Deployment) -> None:
    """The session of the killed hub has not ended. On the same machine, the new hub can see that the process has."""
    raw = deployment.raw()
    hub = deployment.apart()
    await asyncio.to_thread(hub.start)
    client = await deployment.connect(hub)
    assert await client.publish_many(b"t", b"a", b"b") == [1, 2]
    before = deployment.registered_at(raw, hub.port)
    assert before is not None
    hub.kill()
    await asyncio.to_thread(hub.start)
    now = deployment.registered_at(raw, hub.port)
    assert now is not None
    assert now.epoch != before.epoch
    assert now.address == before.address
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"c") == 3
    assert await deployment.owner(b"t") == now
