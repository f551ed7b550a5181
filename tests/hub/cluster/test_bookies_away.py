"""Prove what happens to topics while their bookies, or BookKeeper's ZooKeeper, are away, and afterwards."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.errors import LedgerStoreUnavailableError
from hedwig.hub.hub import Hub
from hedwig.hub.logs.durable_log import DurableLog
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.versions import Version
from hedwig.wire import Message, Publish
from tests.chaos.support.starvation import waited_most_s, waits_s
from tests.faults.support.sickbay import heal, tended
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both_ledgers, on_per_topic
from tests.hub.cluster.support.deployment import Deployment, bodies_of, bookies_of
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.wire_client import WireClient, eventually
from tests.metadata.support.backends import BACKENDS, Surroundings
from tests.support.servers import RunningServers

_BOOKIES = ["bookie-1", "bookie-2", "bookie-3"]
_ZOOKEEPER_ROW = next(row for row in BACKENDS if row.label == "zookeeper")


@pytest.fixture(scope="module")
def stack(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    launcher = servers.beside(tmp_path_factory.mktemp("away") / "servers")
    try:
        launcher.up(["bookkeeper"], bookies=len(_BOOKIES))
        yield launcher
    finally:
        launcher.down()


@pytest.fixture
def ward(stack: DevServers) -> Iterator[DevServers]:
    """The bookies, and a ZooKeeper that only they use. All of them are restarted after the test."""
    yield stack
    heal(stack)


@pytest.fixture
def keeper(ward: DevServers) -> Iterator[str]:
    """The name of the bookies' ZooKeeper, for a test that harms it.

    A bookie whose session ended with its ZooKeeper ends as well, some time after it answered again: in the next test.
    So none of them lives on.
    """
    yield "zookeeper-1"
    for bookie in _BOOKIES:
        with suppress(DevError):  # It has ended by itself.
            ward.kill(bookie)


@pytest.fixture
async def deployment(
    ward: DevServers, servers: RunningServers, ledgers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Deployment]:
    """A deployment with its metadata and liveness in a ZooKeeper without faults."""
    subject = _ZOOKEEPER_ROW.subject(Surroundings(servers, tmp_path))
    async with AsyncExitStack() as stack:
        made = Deployment(servers.address("zookeeper"), "zookeeper", ledgers, subject, tmp_path, monkeypatch, stack)
        made.bookkeeper = ward.address("zookeeper")
        await made.open()
        yield made


@on_per_topic
async def test_message_that_another_hub_recovered_is_delivered_where_its_publish_failed(
    ward: DevServers, deployment: Deployment
) -> None:
    bookkeeper = deployment.on_bookies(append_timeout_s=2.0)
    first, second = await deployment.start(bookkeeper=bookkeeper), await deployment.start(bookkeeper=bookkeeper)
    to_first, to_second = await deployment.connect(first), await deployment.connect(second)
    assert is_owner(await deployment.ask(to_first, b"t"))
    await to_first.subscribed(b"t", b"ann")
    assert await to_first.publish_many(b"t", b"a", b"b", b"c") == [1, 2, 3]
    for name in _BOOKIES:
        await asyncio.to_thread(ward.pause, name)
    # The append waits in the sockets of the bookies, which store it once they run again.
    answer = await to_first.request(b"t", Publish(Message(b"d")))
    assert answer.status is not StatusCode.SUCCESS
    await until(lambda: not len(first.topics), "the topic is given up")
    assert (await first.ledgers.stats()).open_ledgers == 0
    await asyncio.to_thread(heal, ward)
    record = await deployment.store.persistence.read(Topic(b"t"))
    assert record is not None
    (only,) = record.value.ranges

    async def stored() -> bool:
        """Return whether an entry is stored that confirms the entry before it, with message 3."""
        return await second.ledgers.last_entry_id(only.ledger_id) == 2

    await eventually(stored, "the bookies take what waited for them")

    async def served() -> bool:
        return is_owner(await deployment.ask(to_second, b"t"))

    await eventually(served, "the other hub recovers the topic")
    topic = second.topics.get(Topic(b"t"))
    assert topic is not None
    assert topic.log.last_id == 4
    await second.topics.release(topic)
    to_first = await deployment.connect(first)
    assert is_owner(await deployment.ask(to_first, b"t"))
    await to_first.subscribed(b"t", b"ann")
    assert await to_first.delivered(4) == [1, 2, 3, 4]


@on_both_ledgers
async def test_hub_that_starts_before_the_first_bookie_serves_once_there_are_some(
    servers: RunningServers, deployment: Deployment, tmp_path: Path
) -> None:
    launcher = servers.beside(tmp_path / "new")
    try:
        await asyncio.to_thread(launcher.up, ["zookeeper"])
        deployment.bookkeeper = launcher.address("zookeeper")
        raw = deployment.raw(deployment.bookkeeper)
        # An operator makes this node by hand before the bookies start.
        raw.create(LEDGERS_ROOT, makepath=True)
        hub = deployment.apart()
        await asyncio.to_thread(hub.start)
        client = await deployment.connect(hub)
        await client.subscribed(b"t", b"ann")
        answer = await client.request(b"t", Publish(Message(b"too early")))
        assert answer.status is StatusCode.SERVICE_DOWN
        await asyncio.to_thread(launcher.up, ["bookkeeper"], bookies=3)

        async def served() -> bool:
            return (await client.request(b"t", Publish(Message(b"a")))).status is StatusCode.SUCCESS

        await eventually(served, "the bookies are found")
        assert [each.message.body for each in await client.deliveries(1)] == [b"a"]
    finally:
        await asyncio.to_thread(launcher.down)


async def _disconnected(hub: Hub) -> None:
    """Wait until a hub knows that the connections to its bookies have ended."""
    links = bookies_of(hub)._links
    assert links is not None
    known = links._links
    await until(lambda: not any(link._connection for link in known.values()), "the end of connections to bookies")


async def _expect_refusals(client: WireClient, count: int) -> None:
    """Check that publishes are definitely refused, each within a second."""
    for _ in range(count):
        waits, began = waits_s([os.getpid()]), time.monotonic()
        answer = await client.request(b"t", Publish(Message(b"refused")))
        took_s = time.monotonic() - began
        assert (answer.status, "no bookie" in (answer.text or "")) == (StatusCode.SERVICE_DOWN, True), answer
        # A busy machine may have kept this process from running.
        assert took_s < 1 + waited_most_s(waits, waits_s([os.getpid()]))


async def _expect_quick_end(hub: Hub) -> None:
    waits, began = waits_s([os.getpid()]), time.monotonic()
    await hub.close()
    assert time.monotonic() - began < 3 + waited_most_s(waits, waits_s([os.getpid()]))


@on_both_ledgers
async def test_publish_without_any_bookie_is_refused_within_a_second_and_the_topic_kept(
    ward: DevServers, deployment: Deployment
) -> None:
    hub = await deployment.start(shutdown_s=1.0)
    client = await deployment.connect(hub)
    await client.subscribed(b"t", b"ann")
    assert await client.publish_many(b"t", b"a", b"b") == [1, 2]
    assert await client.delivered(2) == [1, 2]
    topic = hub.topics.get(Topic(b"t"))
    for name in _BOOKIES:
        await asyncio.to_thread(ward.kill, name)
    await _disconnected(hub)
    await _expect_refusals(client, 50)
    assert hub.topics.get(Topic(b"t")) is topic
    await asyncio.to_thread(heal, ward)

    async def served() -> bool:
        return (await client.request(b"t", Publish(Message(b"c")))).status is StatusCode.SUCCESS

    await eventually(served, "bookies are back")
    assert await client.publish(b"t", b"d") == 4
    # The subscriber keeps its channel, and does not receive the refused message.
    assert [each.message.body for each in await client.deliveries(2)] == [b"c", b"d"]
    for name in _BOOKIES:
        await asyncio.to_thread(ward.kill, name)
    await _disconnected(hub)
    await _expect_refusals(client, 1)
    await _expect_quick_end(hub)
    if deployment.ledgers == "shared":
        # Without bookies nobody can seal the log, so its hub keeps the topic until its end.
        await asyncio.to_thread(heal, ward)
    else:
        assert await deployment.owner(b"t") is None
    client = await deployment.connect(await deployment.start())
    assert is_owner(await deployment.ask(client, b"t")), "the ledger was closed without bookies"
    if deployment.ledgers == "shared":
        await client.subscribed(b"t", b"bob")
        assert await client.publish(b"t", b"e") == 5


@on_per_topic
async def test_publish_that_bookies_were_sent_before_they_died_stays_uncertain(
    ward: DevServers, deployment: Deployment
) -> None:
    hub = await deployment.start()
    client, other = await deployment.connect(hub), await deployment.connect(hub)
    assert await client.publish_many(b"t", b"a", b"b") == [1, 2]
    for name in _BOOKIES:
        await asyncio.to_thread(ward.pause, name)
    sent = client.send(b"t", Publish(Message(b"c")))
    await client.barrier()
    for name in _BOOKIES:
        await asyncio.to_thread(ward.kill, name)
    await _disconnected(hub)
    await _expect_refusals(other, 20)
    assert sent not in client.answers
    await _expect_quick_end(hub)
    answer = await client.answer(sent)
    assert answer.status is StatusCode.UNCERTAIN_STATE
    assert "not known" in (answer.text or ""), answer
    assert await deployment.owner(b"t") is None
    await asyncio.to_thread(heal, ward)
    after = await deployment.start()
    client = await deployment.connect(after)

    async def served() -> bool:
        return is_owner(await deployment.ask(client, b"t"))

    await eventually(served, "the ledger is recovered")
    assert await client.publish(b"t", b"d") == 3


@on_per_topic
@pytest.mark.parametrize("how", ["killed", pytest.param("silent", marks=pytest.mark.full)])
async def test_topic_goes_on_while_its_ledger_is_full_and_the_zookeeper_of_the_bookies_is_away(
    ward: DevServers, keeper: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("hedwig.hub.logs.durable_log._ROLL_PAUSE_S", 0.5)
    hub = await deployment.start(ledger_messages_max=5)
    client = await deployment.connect(hub)
    await client.subscribed(b"t", b"ann")
    bodies = [b"%d" % number for number in range(1, 41)]
    assert await client.publish_many(b"t", *bodies[:4]) == [1, 2, 3, 4]
    topic = hub.topics.get(Topic(b"t"))
    assert topic is not None
    log = topic.log
    assert isinstance(log, DurableLog)
    await asyncio.to_thread(ward.kill if how == "killed" else ward.pause, keeper)
    try:
        for body in bodies[4:20]:
            await client.publish(b"t", body)
        assert await client.publish_many(b"t", *bodies[20:30]) == list(range(21, 31))
        # The ZooKeeper operations under way end at their deadline.
        await until(lambda: log.is_idle, "the first attempt to make a ledger ends")
        await client.publish(b"t", bodies[30])
        (only,) = log.ranges.ranges
        assert only.end is None
    finally:
        await asyncio.to_thread(heal, ward)

    async def rolled() -> bool:
        await client.publish(b"t", b"more")
        return len(log.ranges.ranges) > 1

    # A bookie may end now, for its session did.
    async with tended(ward):
        await eventually(rolled, "the next ledger is made")
    assert hub.topics.get(Topic(b"t")) is topic
    # The subscriber keeps its channel.
    assert [each.message.body for each in await client.deliveries(31)] == bodies[:31]
    await until(lambda: log.is_idle, "the ledger before it is sealed")
    assert (await hub.ledgers.stats()).open_ledgers == 1


@on_per_topic
async def test_ledger_that_its_hub_could_not_seal_is_read_to_its_end_by_the_next_owner(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await deployment.start(ledger_messages_max=5), await deployment.start(ledger_messages_max=5)
    client = await deployment.connect(first)
    assert is_owner(await deployment.ask(client, b"t"))
    await client.subscribed(b"t", b"ann")

    async def close(_: int) -> int:
        raise LedgerStoreUnavailableError("the test refused it")

    monkeypatch.setattr(first.ledgers, "close", close)
    assert await client.publish_many(b"t", *[b"%d" % number for number in range(1, 8)]) == list(range(1, 8))
    topic = first.topics.get(Topic(b"t"))
    assert topic is not None
    await first.topics.release(topic)
    assert (await first.ledgers.stats()).open_ledgers == 0
    client = await deployment.connect(second)
    assert is_owner(await deployment.ask(client, b"t"))
    await client.subscribed(b"t", b"ann")
    assert await client.delivered(7) == list(range(1, 8))


@on_per_topic
async def test_writers_of_topics_that_were_given_up_do_not_stay(
    ward: DevServers, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await deployment.start(bookkeeper=deployment.on_bookies(append_timeout_s=2.0), ledger_messages_max=1000)
    client = await deployment.connect(hub)
    names = [b"t%d" % number for number in range(10)]

    async def published() -> bool:
        answers = [await client.request(name, Publish(Message(b"m"))) for name in names]
        return all(answer.status is StatusCode.SUCCESS for answer in answers)

    async def open_ledgers() -> int:
        return (await hub.ledgers.stats()).open_ledgers

    await eventually(published, "all topics have a ledger")
    # The bookies do not answer.
    for bookie in _BOOKIES:
        await asyncio.to_thread(ward.pause, bookie)
    sent = [client.send(name, Publish(Message(b"m"))) for name in names]
    for txn_id in sent:
        assert (await client.answer(txn_id)).status is not StatusCode.SUCCESS
    await asyncio.to_thread(heal, ward)
    await until(lambda: not len(hub.topics), "the topics are given up")
    assert await open_ledgers() == 0
    # A bookie that was paused past its session ends if it cannot register again.
    async with tended(ward):
        await eventually(published, "all topics are served again")
    # Another client has written the record.
    for name in names:
        topic = hub.topics.get(Topic(name))
        assert topic is not None
        record = await deployment.store.persistence.read(Topic(name))
        assert record is not None
        await deployment.store.persistence.write(Topic(name), record.value, record.version)
        await hub.topics.release(topic)
    assert await open_ledgers() == 0
    await eventually(published, "all topics are served again")
    # The ledgers cannot be sealed when their topics are released.
    with monkeypatch.context() as patch:

        async def write(*_: object) -> Version:
            raise LedgerStoreUnavailableError("the test refused it")

        patch.setattr(bookies_of(hub)._cluster.metadata, "write", write)
        for topic in list(hub.topics):
            await hub.topics.release(topic)
    assert not len(hub.topics)
    assert await open_ledgers() == 0
    await eventually(published, "all topics are served again")
    assert await open_ledgers() == len(names)


async def test_message_in_doubt_is_answered_so_and_the_log_goes_on_once_bookies_are_back(
    ward: DevServers, deployment: Deployment
) -> None:
    bookkeeper = deployment.on_bookies(append_timeout_s=2.0)
    hub, other = await deployment.start(bookkeeper=bookkeeper), await deployment.start()
    client, subscriber = await deployment.connect(hub), await deployment.connect(hub)
    for topic_name in (b"t", b"idle"):
        assert is_owner(await deployment.ask(client, topic_name))
        await subscriber.subscribed(topic_name, b"ann")  # So that nothing is deleted.
        assert await client.publish_many(topic_name, b"a", b"b") == [1, 2]
    idle = hub.topics.get(Topic(b"idle"))
    for name in _BOOKIES:
        await asyncio.to_thread(ward.pause, name)
    # The append waits in the sockets of the bookies, which store it once they run again.
    answer = await client.request(b"t", Publish(Message(b"c")))
    assert answer.status is StatusCode.UNCERTAIN_STATE
    for topic_name in (b"idle", b"t"):
        assert (await client.request(topic_name, Publish(Message(b"refused")))).status is StatusCode.SERVICE_DOWN
    assert hub.topics.get(Topic(b"idle")) is idle, "a topic without messages in doubt is kept"
    await asyncio.to_thread(heal, ward)
    async with tended(ward):

        async def served() -> bool:
            return (await client.request(b"t", Publish(Message(b"d")))).status is StatusCode.SUCCESS

        await eventually(served, "the log goes on")
    assert await client.publish(b"idle", b"c") == 3
    bodies = await bodies_of(hub, b"t")
    assert bodies in ([b"a", b"b", b"c", b"d"], [b"a", b"b", b"d"]), "c became part of the topic, or did not"
    topic = hub.topics.get(Topic(b"t"))
    assert topic is not None
    await hub.topics.release(topic)
    assert is_owner(await deployment.ask(await deployment.connect(other), b"t"))
    assert await bodies_of(other, b"t") == bodies


async def test_log_goes_on_while_its_segment_is_full_and_the_zookeeper_of_the_bookies_is_away(
    ward: DevServers, keeper: str, deployment: Deployment
) -> None:
    deployment.write_logs(segment_bytes=2000)
    hub = await deployment.start()
    client = await deployment.connect(hub)
    assert await client.publish(b"t", bytes(500)) == 1
    await deployment.begin_log(hub)
    await asyncio.to_thread(ward.kill, keeper)
    try:
        assert await client.publish_many(b"t", *[bytes(500)] * 40) == list(range(2, 42))
    finally:
        await asyncio.to_thread(heal, ward)

    async def is_sealed() -> bool:
        return sum(each.records for each in (await deployment.log_of(hub)).segments) == 41

    await eventually(is_sealed, "the segments that were full are sealed")
    assert await client.publish(b"t", b"more") == 42
