"""Prove that a cluster goes from ledgers per topic to shared logs and back, hub by hub, and loses nothing.

Hubs of the last release without shared logs run from its wheel.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.metadata import read_layout
from hedwig.metadata.contract.layout import FORMAT_MAJOR, SHARED_LOGS_MAJOR
from hedwig.metadata.logs.record import LogRecord, LogState
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.model import LedgerRange, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.support.traffic import Traffic
from tests.hub.support.running import RunningHub

TOPICS: Final = [b"topic-%d" % number for number in range(8)]
LATE: Final = SubscriberId(b"late")
_SHARED: Final = "bookkeeper.ledgers=shared"
_PER_TOPIC: Final = "bookkeeper.ledgers=per-topic"
_SILENCE_S: Final = 2.0

MakeHub: TypeAlias = Callable[..., RunningHub]


@pytest.fixture
async def older(
    deployment: Deployment, before_shared_logs: dict[str, str], tmp_path: Path
) -> AsyncIterator[Callable[[], RunningHub]]:
    """A function that returns another hub of the last release without shared logs, which is not started yet."""
    made: list[RunningHub] = []
    unknown = ("bookkeeper.ledgers", "stores_file")
    settings = [each for each in deployment.settings() if not each.startswith(unknown)]

    def make() -> RunningHub:
        made.append(RunningHub(tmp_path / f"older-{len(made)}", *settings, environment=before_shared_logs))
        return made[-1]

    yield make
    for hub in made:
        hub.kill()


async def _start(hub: RunningHub) -> RunningHub:
    return await asyncio.to_thread(hub.start)


async def _replace(deployment: Deployment, former: RunningHub) -> RunningHub:
    """Stop a hub of the former release in order, and start one of this release with shared logs at its address."""
    await asyncio.to_thread(former.stop)
    return await _start(deployment.apart(f"port={former.port}", _SHARED))


async def _format(deployment: Deployment) -> int:
    layout = await read_layout(deployment.subject.url)
    assert layout is not None
    return layout.major


async def _logs(deployment: Deployment) -> list[LogRecord]:
    records = KeptLogRecords(deployment.store.named_records)
    found = [await records.read(number) async for number in records.numbers()]
    return [record for record in found if record is not None]


async def _ranges(deployment: Deployment, topic: bytes) -> Sequence[LedgerRange]:
    stored = await deployment.store.persistence.read(Topic(topic))
    return () if stored is None else stored.value.ranges


async def _all_publish_in(deployment: Deployment, *, shared: bool) -> None:
    """Wait until the last ledger of each topic is of the kind."""
    for topic in TOPICS:
        async with asyncio.timeout(60):
            while True:
                ranges = await _ranges(deployment, topic)
                if ranges and is_virtual(ranges[-1].ledger_id) is shared:
                    break
                await asyncio.sleep(0.1)


def _client(hub: RunningHub) -> HedwigClient:
    return HedwigClient(ClientOptions(hub=HubAddress.parse(hub.address)))


async def _subscribe(hub: RunningHub, topics: Iterable[bytes]) -> None:
    """Make a subscription to each topic, which begins there, and leave it."""
    async with _client(hub) as client:
        for topic in topics:
            async with client.subscribe(Topic(topic), LATE):
                pass


async def _read(hub: RunningHub, topic: bytes, count: int) -> list[tuple[int, bytes]]:
    """Return the first messages that the subscription has not consumed, and consume nothing."""
    async with (
        _client(hub) as client,
        AsyncExitStack() as stack,
    ):
        subscription = await stack.enter_async_context(client.subscribe(Topic(topic), LATE))
        async with asyncio.timeout(60):
            received = [await anext(subscription) for _ in range(count)]
        return [(each.seq_id.local, bytes(each.body)) for each in received]


@pytest.mark.open_servers  # An earlier release shows no certificate.
@pytest.mark.full
async def test_hubs_are_upgraded_one_by_one_and_go_back(
    deployment: Deployment, older: Callable[[], RunningHub]
) -> None:
    one, two = await asyncio.gather(_start(older()), _start(older()))
    await _subscribe(one, TOPICS)
    async with Traffic(one.address, TOPICS) as traffic:
        await _all_publish_in(deployment, shared=False)

        first = await _replace(deployment, one)
        assert f"hub 127.0.0.1:{two.port}:-1, of an older release or the original," in first.log
        assert (await _format(deployment), await _logs(deployment)) == (FORMAT_MAJOR, [])

        second = await _replace(deployment, two)
        assert "of an older release" not in second.log

        await asyncio.to_thread(first.restart)
        assert first.log.count("of an older release") == 1
        await _all_publish_in(deployment, shared=True)
        assert await _format(deployment) == SHARED_LOGS_MAJOR
        writing = {record.hub.port for record in await _logs(deployment) if record.state is LogState.OPEN}
        assert writing, "a hub begins its log with the first topic that it claims"
        assert writing <= {first.port, second.port}
        refused = older()
        refused.begin()
        assert await asyncio.to_thread(refused.wait) != 0
        assert "the store is newer: upgrade this software" in refused.log.splitlines()[-1]

        await asyncio.to_thread(first.restart, _PER_TOPIC)
        await asyncio.to_thread(second.restart, _PER_TOPIC)
        await _all_publish_in(deployment, shared=False)
        assert all(record.state is LogState.CLOSED for record in await _logs(deployment))
        traffic.check_going_on()
        await traffic.settle()
    for topic, stream in traffic.streams.items():
        kinds = [is_virtual(each.ledger_id) for each in await _ranges(deployment, topic)]
        assert kinds[0] is kinds[-1] is False
        assert True in kinds
        received = dict(await _read(second, topic, stream.last))
        assert list(received) == list(range(1, stream.last + 1))
        assert stream.acknowledged.items() <= received.items()


@pytest.mark.open_servers  # An earlier release shows no certificate.
@pytest.mark.full
async def test_older_hub_that_comes_between_loses_nothing(
    deployment: Deployment, older: Callable[[], RunningHub]
) -> None:
    """It read the format before a hub raised it, and registered after that hub had looked for such hubs."""
    closed, left_open = TOPICS[:2]
    stops, dies = await asyncio.gather(*(_start(deployment.apart(_SHARED)) for _ in range(2)))
    for hub, topic, word in ((stops, closed, b"closed"), (dies, left_open, b"open")):
        client = await deployment.connect(hub)
        await client.subscribed(topic, LATE)
        for number in range(1, 4):
            assert await client.publish(topic, b"%s %d" % (word, number)) == number

    await deployment.store.set_format(FORMAT_MAJOR)
    between = await _start(older())
    await deployment.store.set_format(SHARED_LOGS_MAJOR)
    await asyncio.to_thread(stops.stop)
    dies.kill()
    raw = deployment.raw()
    await until(lambda: len(raw.get_children(f"{deployment.prefix}/hosts")) == 1, "only the older hub is alive")

    to_older = await deployment.connect(between)
    answer = await to_older.request(left_open, Publish(Message(b"refused")))
    assert answer.status is not StatusCode.SUCCESS
    assert "there is no ledger" in (answer.text or "")
    assert await to_older.publish(closed, b"closed 4") == 4
    await to_older.subscribed(closed, LATE)
    await asyncio.sleep(_SILENCE_S)
    assert to_older.undelivered == []
    await asyncio.to_thread(between.stop)

    after = await _start(stops)
    assert "of an older release" not in after.log
    assert await (await deployment.connect(after)).publish(left_open, b"open 4") == 4
    for topic, word in ((closed, b"closed"), (left_open, b"open")):
        assert await _read(after, topic, 4) == [(number, b"%s %d" % (word, number)) for number in range(1, 5)]


async def test_topics_with_ledgers_of_their_own_beside_a_shared_log(deployment: Deployment) -> None:
    own, shared = b"own-1", b"other"
    settings = (_SHARED, "bookkeeper.own_ledgers=own-*,x?")
    first = await _start(deployment.apart(*settings))
    await _subscribe(first, (own, shared))
    client = await deployment.connect(first)
    for topic in (own, shared):
        assert await client.publish_many(topic, b"1", b"2") == [1, 2]
        (each,) = await _ranges(deployment, topic)
        assert is_virtual(each.ledger_id) is (topic == shared)
    (record,) = await _logs(deployment)
    assert not record.is_alone
    first.kill()
    again = await _start(first)
    client = await deployment.connect(again)
    for topic in (own, shared):
        assert await client.publish(topic, b"3") == 3
        assert await _read(again, topic, 3) == [(number, b"%d" % number) for number in range(1, 4)]
        assert {is_virtual(each.ledger_id) for each in await _ranges(deployment, topic)} == {topic == shared}
