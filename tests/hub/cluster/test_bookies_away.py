"""Prove what becomes of topics while their bookies, or BookKeeper's ZooKeeper, are away, and afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cli.dev import DevServers
from cli.dev.bookkeeper import LEDGERS_ROOT
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from hub.cluster_options import BookieOptions
from tests.faults.sickbay import heal
from tests.faults.waiting import until
from tests.hub.cluster.deployment import Deployment, ask
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.wire_client import eventually
from tests.metadata.place import BACKENDS, Surroundings
from tests.servers import UNSYNCED, RunningServers

_BOOKIES = ["bookie-1", "bookie-2", "bookie-3"]
_ZOOKEEPER_ROW = next(row for row in BACKENDS if row.label == "zookeeper")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    launcher = DevServers(tmp_path_factory.mktemp("away") / "servers", **UNSYNCED)
    try:
        launcher.up(["bookkeeper"], bookies=len(_BOOKIES))
        yield launcher
    finally:
        launcher.down()


@pytest.fixture
def ward(stack: DevServers) -> Iterator[DevServers]:
    """The bookies and a ZooKeeper that only they use, all of them well again after the test."""
    yield stack
    heal(stack)


@pytest.fixture
async def deployment(
    ward: DevServers, servers: RunningServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Deployment]:
    """A deployment whose metadata and liveness are in a ZooKeeper that nothing happens to."""
    place = _ZOOKEEPER_ROW.place(Surroundings(servers, tmp_path))
    async with AsyncExitStack() as stack:
        made = Deployment(servers.address("zookeeper"), "zookeeper", place, tmp_path, monkeypatch, stack)
        made.bookkeeper = ward.address("zookeeper")
        await made.open()
        yield made


def _on(deployment: Deployment, **options: float) -> BookieOptions:
    return BookieOptions(zookeeper=f"zookeeper://{deployment.bookkeeper}{LEDGERS_ROOT}", **options)  # type: ignore[arg-type]


async def test_message_that_another_hub_recovered_is_delivered_where_its_publish_failed(
    ward: DevServers, deployment: Deployment
) -> None:
    bookkeeper = _on(deployment, append_timeout_s=2.0)
    first, second = await deployment.start(bookkeeper=bookkeeper), await deployment.start(bookkeeper=bookkeeper)
    to_first, to_second = await deployment.connect(first), await deployment.connect(second)
    assert is_owner(await ask(to_first, b"t"))
    await to_first.subscribed(b"t", b"ann")
    assert await to_first.publish_many(b"t", b"a", b"b", b"c") == [1, 2, 3]
    for name in _BOOKIES:
        await asyncio.to_thread(ward.pause, name)
    # It waits in the sockets of the bookies, which take it once they go on.
    answer = await to_first.request(b"t", Publish(Message(b"d")))
    assert answer.status is not StatusCode.SUCCESS
    await until(lambda: not len(first.topics), "the topic is given up")
    assert (await first.ledgers.stats()).open_ledgers == 0
    await asyncio.to_thread(heal, ward)
    record = await deployment.store.persistence.read_topic_persistence_info(Topic(b"t"))
    assert record is not None
    (only,) = record.value.ranges

    async def stored() -> bool:
        """Say whether there is an entry that tells that the one before it, with message 3, was acknowledged."""
        return await second.ledgers.last_entry_id(only.ledger_id) == 2

    await eventually(stored, "the bookies take what waited for them")

    async def served() -> bool:
        return is_owner(await ask(to_second, b"t"))

    await eventually(served, "the other hub recovers the topic")
    topic = second.topics.get(Topic(b"t"))
    assert topic is not None
    assert topic.log.last_id == 4
    await second.topics.release(topic)
    to_first = await deployment.connect(first)
    assert is_owner(await ask(to_first, b"t"))
    await to_first.subscribed(b"t", b"ann")
    assert await to_first.delivered(4) == [1, 2, 3, 4]
