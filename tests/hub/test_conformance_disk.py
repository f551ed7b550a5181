"""A disk that fails under a hub: publishers receive an error, and subscribers see no gap and no id twice."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Message, Publish
from tests.hub.conftest import Connect, StartHub
from tests.hub.ledgers.support.faulty_disk import FaultyDisk, size_of
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")
_KIB = 1 << 10


def fails(code: int) -> Callable[[Path], None]:
    """Return a disk call that fails with an error number."""

    def fail(_: Path) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def works(_: Path) -> None:
    """Do nothing, as a sound disk."""


def used(hub: Hub) -> int:
    return sum(size_of(path) for path in (hub.options.data_directory / "ledgers").iterdir())


def ids_of(answers: list[Answer]) -> list[int]:
    return [each.published.local for each in answers if each.published is not None]


async def published(client: WireClient) -> int:
    """Publish until the hub accepts it, which needs the store's reserve; return the id."""
    ids: list[int] = []

    async def is_published() -> bool:
        ids.extend(ids_of([await client.request(T, Publish(Message(b"after")))]))
        return bool(ids)

    await eventually(is_published, "a sound disk takes publishes again")
    return ids[0]


async def test_a_full_disk_refuses_publishes_and_the_hub_serves_on(start_hub: StartHub, connect: Connect) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk)
    client, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    assert await publisher.publish_many(T, b"1", b"2") == [1, 2]
    disk.capacity = used(hub)
    refused = [await publisher.request(T, Publish(Message(b"x" * 1000))) for _ in range(3)]
    assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
    assert await client.delivered(2) == [1, 2]
    await client.subscribed(b"another topic", S)
    client.consume(T, S, 1)
    await client.subscribed(T, S)
    assert await client.delivered(1) == [2], "what is stored is read on a full disk"
    disk.capacity = None
    assert [await published(publisher), await publisher.publish(T, b"4")] == [3, 4]
    assert await client.delivered(2) == [3, 4]
    assert hub.topics.released == 0, "nothing was in doubt, so the topic stays"


async def test_pipelined_publishes_on_a_disk_that_fills_up_lose_no_id(start_hub: StartHub, connect: Connect) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk, ledger_messages_max=50)
    client, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    await publisher.publish(T, b"first")
    expected, statuses = [1], set[StatusCode]()
    for _ in range(4):
        disk.capacity = used(hub) + 30 * _KIB
        sent = [publisher.send(T, Publish(Message(b"x" * _KIB))) for _ in range(60)]
        answers = [await publisher.answer(txn_id) for txn_id in sent]
        statuses |= {each.status for each in answers}
        expected += ids_of(answers)
        disk.capacity = None
        expected.append(await published(publisher))
    assert statuses <= {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}
    assert StatusCode.SERVICE_DOWN in statuses
    assert expected == list(range(1, len(expected) + 1))
    assert await client.delivered(len(expected)) == expected


async def test_a_new_topic_on_a_full_disk_and_later(start_hub: StartHub, connect: Connect) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk)
    client = await connect(hub)
    await client.publish(T, b"m")
    disk.capacity = used(hub)
    assert (await client.request(b"new", Publish(Message(b"m")))).status is StatusCode.SERVICE_DOWN
    disk.capacity = None
    await published(client)
    assert await client.publish(b"new", b"m") == 1


async def test_consuming_frees_a_full_disk(start_hub: StartHub, connect: Connect) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk, ledger_messages_max=50)
    client = await connect(hub)
    await client.subscribed(T, S)
    disk.capacity = used(hub) + 4000 * _KIB
    count = 0
    while True:
        answer = await client.request(T, Publish(Message(b"x" * 20_000)))
        if answer.published is None:
            assert answer.status is StatusCode.SERVICE_DOWN
            break
        count += 1
    assert count > 100
    assert await client.delivered(count) == list(range(1, count + 1))
    client.consume(T, S, count)
    await client.close_subscription(T, S)
    await hub.retention.sweep()

    async def is_published() -> bool:
        return (await client.request(T, Publish(Message(b"x" * 20_000)))).published is not None

    await eventually(is_published, "the space of consumed messages takes new ones")


@pytest.mark.parametrize(
    ("code", "status"), [(errno.EIO, StatusCode.UNCERTAIN_STATE), (errno.EDQUOT, StatusCode.UNCERTAIN_STATE)]
)
async def test_a_failed_sync_is_uncertain_and_the_topic_is_taken_up_again(
    start_hub: StartHub, connect: Connect, code: int, status: StatusCode
) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk)
    publisher = await connect(hub)
    await publisher.subscribed(T, S)
    await publisher.publish_many(T, b"1", b"2")
    other = await connect(hub)
    await other.publish(b"other", b"m")
    disk.on_sync = disk.on_truncate = fails(code)
    sent = [other.send(T, Publish(Message(b"uncertain %d" % number))) for number in range(5)]
    answers = [await other.answer(txn_id) for txn_id in sent]
    assert ids_of(answers) == []
    assert answers[0].status is status
    disk.on_sync = disk.on_truncate = works

    bodies: dict[int, bytes] = {1: b"1", 2: b"2"}

    async def is_published() -> bool:
        answer = await other.request(T, Publish(Message(b"sure")))
        if answer.published is not None:
            assert answer.published.local not in bodies
            bodies[answer.published.local] = b"sure"
        return answer.published is not None

    await eventually(is_published, "the topic takes publishes again")
    await publisher.closed_by_hub()
    again = await connect(hub)
    await again.subscribed(T, S, force=True)
    last = max(bodies)
    got = await again.deliveries(last)
    assert [each.message.seq_id.local for each in got if each.message.seq_id] == list(range(1, last + 1))
    for each in got:
        assert each.message.seq_id is not None
        known = bodies.get(each.message.seq_id.local)
        assert each.message.body == known or (known is None and each.message.body.startswith(b"uncertain"))


async def test_a_disk_that_fails_at_random_never_makes_a_gap(start_hub: StartHub, connect: Connect) -> None:
    """Whatever fails at any time, acknowledged messages stay under their ids, and ids have no gap."""
    disk = FaultyDisk()
    hub = await start_hub(disk=disk, ledger_messages_max=7)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.close_subscription(T, S)
    acknowledged: dict[int, bytes] = {}
    refused = 0
    for round_ in range(12):
        faults = fails((errno.EIO, errno.ENOSPC)[round_ % 2])
        name = ("on_sync", "on_write", "on_truncate")[round_ % 3]
        bodies = [b"%d/%d" % (round_, number) for number in range(20)]
        sent = [client.send(T, Publish(Message(body))) for body in bodies[:10]]
        setattr(disk, name, faults)
        disk.on_sync = faults if round_ % 4 == 3 else disk.on_sync
        sent += [client.send(T, Publish(Message(body))) for body in bodies[10:]]
        answers = [await client.answer(txn_id) for txn_id in sent]
        disk.on_sync = disk.on_write = disk.on_truncate = works
        for answer, body in zip(answers, bodies, strict=True):
            if answer.published is not None:
                assert answer.published.local not in acknowledged, "no id is given twice"
                acknowledged[answer.published.local] = body
            else:
                refused += 1
        acknowledged[await published(client)] = b"after"
    assert refused > 10
    assert len(acknowledged) > 22
    await client.subscribed(T, S)
    got = await client.deliveries(max(acknowledged))
    assert [each.message.seq_id.local for each in got if each.message.seq_id] == list(range(1, max(acknowledged) + 1))
    delivered = {each.message.seq_id.local: each.message.body for each in got if each.message.seq_id}
    assert {number: delivered[number] for number in acknowledged} == acknowledged


async def test_a_disk_that_hangs_holds_up_no_reading(start_hub: StartHub, connect: Connect) -> None:
    disk = FaultyDisk()
    hub = await start_hub(disk=disk)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish(T, b"1")
    await client.deliveries(1)
    go_on = threading.Event()
    disk.on_sync = lambda _: None if go_on.wait(20) else fails(errno.EIO)(_)
    try:
        waiting = client.send(T, Publish(Message(b"2")))
        await client.subscribed(T, S)
        assert await client.delivered(1) == [1]
        assert waiting not in client.answers
    finally:
        go_on.set()
    assert WireClient.published(await client.answer(waiting)) == 2
