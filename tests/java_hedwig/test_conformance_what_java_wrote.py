"""Prove that our code reads the original's nodes as the records asked for, and would write the same bytes.

No Java runs here: the nodes are those of the checked-in dump, created again in a real ZooKeeper.
"""

import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.errors import BadVersionError, LayoutMismatchError, SubscriptionStateExistsError
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
)
from hedwig.versions import NEW
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.fixture import Stage, read_fixture
from tests.java_hedwig.support.znodes import make_tree
from tests.support.servers import RunningServers

__all__: list[str] = []

STAGES: Final = read_fixture()
ORDERS: Final = Topic(b"orders")
PICKY: Final = SubscriberId(b"picky")
_CONNECT_S: Final = 30.0
_NEWER: Final = b"\x92\x7d\x05newer"
"""Field 2002 of five bytes, which no reader knows."""

Path = Callable[..., str]


@pytest.fixture(params=STAGES, ids=lambda stage: stage.name)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each dump in turn."""
    chosen: Stage = request.param
    return chosen


@pytest.fixture
def znodes(servers: RunningServers) -> Iterator[KazooClient]:
    """A client past the code under test; its session stands for that of the hub."""
    client = KazooClient(servers.address("zookeeper"), timeout=_CONNECT_S)
    client.start(timeout=_CONNECT_S)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def root(znodes: KazooClient, stage: Stage) -> str:
    """The path under which the nodes of the dump were created again."""
    path = f"/hedwig/{uuid.uuid4().hex}"
    make_tree(znodes, path, stage.nodes)
    return path


@pytest.fixture
def fresh_root() -> str:
    """A path with no nodes."""
    return f"/hedwig/{uuid.uuid4().hex}"


@pytest.fixture
async def store(servers: RunningServers, root: str) -> AsyncIterator[MetadataStore]:
    """The dump, opened unchanged."""
    async with await open_metadata(f"zookeeper://{servers.address('zookeeper')}{root}") as opened:
        yield opened


async def _all(listing: AsyncIterator[Topic]) -> list[Topic]:
    return [topic async for topic in listing]


def _node(stage: Stage, path: str) -> bytes:
    (data,) = [node.data for node in stage.nodes if node.path == path]
    return data


# ------------------------------------------------------------------------------------------------------------- reading


async def test_every_owner_is_read(store: MetadataStore, stage: Stage) -> None:
    stored = {topic: await store.ownership.read(topic) for topic in stage.topics}
    owners = {topic: one and one.value for topic, one in stored.items()}
    assert owners == {topic: records.owner for topic, records in stage.topics.items()}
    assert any(owners.values())


async def test_every_ledger_range_is_read(store: MetadataStore, stage: Stage) -> None:
    stored = {topic: await store.persistence.read(topic) for topic in stage.topics}
    assert {topic: one and one.value for topic, one in stored.items()} == {
        topic: records.ranges for topic, records in stage.topics.items()
    }


async def test_every_subscription_is_read_one_by_one_and_in_a_scan(store: MetadataStore, stage: Stage) -> None:
    for topic, records in stage.topics.items():
        scanned = {name: versioned async for name, versioned in store.subscriptions.read_subscriptions(topic)}
        assert {name: versioned.value for name, versioned in scanned.items()} == records.subscriptions
        for name in records.subscriptions:
            assert await store.subscriptions.read(topic, name) == scanned[name]


async def test_listings_name_exactly_the_topics(store: MetadataStore, stage: Stage) -> None:
    topics = stage.topics
    assert set(await _all(store.topics())) == set(topics)
    assert set(await _all(store.persistence.topics())) == set(topics)
    assert set(await _all(store.ownership.topics())) == {name for name, one in topics.items() if one.owner}
    assert set(await _all(store.subscriptions.topics())) == {name for name, one in topics.items() if one.subscriptions}
    assert await store.count() == {
        "ownership": sum(one.owner is not None for one in topics.values()),
        "persistence": len(topics),
        "subscriptions": sum(len(one.subscriptions) for one in topics.values()),
    }


async def test_we_read_what_the_console_of_the_original_reads(store: MetadataStore, stage: Stage) -> None:
    for topic, records in stage.topics.items():
        owner = await store.ownership.read(topic)
        ranges = await store.persistence.read(topic)
        assert ranges is not None
        shown = "NULL" if owner is None else f'hostname: "{owner.value.address}", czxid: {owner.value.epoch}'
        assert f"\nOwner : {shown}\n" in records.console
        lines = re.findall(r"^Ledger (\d+) \[ (\d+) ~ (\d+) \]$", records.console, re.MULTILINE)
        assert [(int(ledger), int(start)) for ledger, start, _ in lines] == [
            (one.ledger_id, one.start) for one in ranges.value.ranges
        ]
        # The console found the end of the open ledger in the ledger itself, not in the record.
        closed = [one.end.local for one in ranges.value.ranges if one.end is not None]
        assert [int(end) for _, _, end in lines[:-1]] == closed
        pointers = dict(re.findall(r"^Subscriber (.+) : State : \{ consumeSeqId: local:(\d+)", records.console, re.M))
        subscriptions = [one async for one in store.subscriptions.read_subscriptions(topic)]
        assert pointers == {
            name.decode(): str(one.value.state.consumed.local)
            for name, one in subscriptions
            if one.value.state is not None
        }


async def test_the_dump_covers_what_it_is_meant_to(stage: Stage) -> None:
    """A new dump that lost a case would prove less, and nobody would notice."""
    ranges = [one for records in stage.topics.values() if records.ranges for one in records.ranges.ranges]
    assert {one.end is None for one in ranges} == {True, False}
    assert any(one.end is not None and one.end.remote for one in ranges)
    data = [one for records in stage.topics.values() for one in records.subscriptions.values()]
    wanted = [one.preferences for one in data if one.preferences is not None]
    assert any(one.options and one.message_bound and one.message_filter and one.message_window_size for one in wanted)
    assert any(topic.count(b"/") > 1 for topic in stage.topics)
    assert any(not topic.isascii() for topic in stage.topics)
    owners = [node for node in stage.nodes if node.path.endswith("/hub") and "/subscribers/" not in node.path]
    assert {node.ephemeral for node in owners} == {stage.name == "ephemeral owners"}
    epochs = {records.owner.epoch for records in stage.topics.values() if records.owner is not None}
    assert len(epochs) == (1 if stage.name == "ephemeral owners" else 3)


async def test_store_of_the_other_java_manager_is_refused(
    servers: RunningServers, znodes: KazooClient, stage: Stage, root: str
) -> None:
    path = f"{root}/managers/METADATA/LAYOUT"
    znodes.set(path, _node(stage, "/managers/METADATA/LAYOUT").replace(b"ZkMetadata", b"MsMetadata"))
    with pytest.raises(LayoutMismatchError, match="MsMetadataManagerFactory"):
        await open_metadata(f"zookeeper://{servers.address('zookeeper')}{root}")


# ------------------------------------------------------------------------------------------------------------- writing


def _without_stamp(data: bytes, message: pb.SubscriptionData | pb.LedgerRanges) -> bytes:
    """Return `data` up to our field 1000, which must come last and be there."""
    message.ParseFromString(data)
    assert message.HasField("writeStamp")
    stamp = pb.LedgerRanges(writeStamp=message.writeStamp).SerializeToString()
    assert data.endswith(stamp)
    return data.removesuffix(stamp)


async def test_records_created_by_us_are_the_bytes_of_the_original_and_a_stamp(
    servers: RunningServers, znodes: KazooClient, stage: Stage, fresh_root: str
) -> None:
    url = f"zookeeper://{servers.address('zookeeper')}{fresh_root}"
    await format_metadata(url)
    async with await open_metadata(url) as ours:
        for topic, records in stage.topics.items():
            if records.owner is not None:
                await ours.ownership.write(topic, records.owner, NEW)
            assert records.ranges is not None
            await ours.persistence.write(topic, records.ranges, NEW)
            for name, data in records.subscriptions.items():
                await ours.subscriptions.create(topic, name, data)
    # An ended subscription leaves its parent node behind; our code never created that one.
    for node in stage.nodes:
        if node.path.startswith("/hosts") or (node.path == "/topics/left/subscribers"):
            continue
        stored, _ = znodes.get(fresh_root + node.path)
        if node.path.endswith("/ledgers"):
            stored = _without_stamp(stored, pb.LedgerRanges())
        elif node.path.rpartition("/")[0].endswith("/subscribers"):
            stored = _without_stamp(stored, pb.SubscriptionData())
        # A parent has the token of the last create under it.
        assert stored == node.data or not node.data, node.path


async def test_records_written_back_by_us_are_the_bytes_of_the_original_and_a_stamp(
    store: MetadataStore, znodes: KazooClient, stage: Stage, root: str
) -> None:
    for topic in stage.topics:
        path = f"/topics/{topic.decode()}"
        owner = await store.ownership.read(topic)
        if owner is not None:
            await store.ownership.write(topic, owner.value, owner.version)
            assert znodes.get(f"{root}{path}/hub")[0] == _node(stage, f"{path}/hub")
        ranges = await store.persistence.read(topic)
        assert ranges is not None
        await store.persistence.write(topic, ranges.value, ranges.version)
        stored, _ = znodes.get(f"{root}{path}/ledgers")
        assert _without_stamp(stored, pb.LedgerRanges()) == _node(stage, f"{path}/ledgers")
        async for name, record in store.subscriptions.read_subscriptions(topic):
            await store.subscriptions.replace(topic, name, record.value, record.version)
            node = f"{path}/subscribers/{name.decode()}"
            stored, _ = znodes.get(root + node)
            assert _without_stamp(stored, pb.SubscriptionData()) == _node(stage, node)


async def test_moving_a_pointer_keeps_the_preferences_and_what_nobody_knows(
    store: MetadataStore, znodes: KazooClient, stage: Stage, root: str
) -> None:
    path = f"{root}/topics/orders/subscribers/picky"
    before = pb.SubscriptionData.FromString(znodes.get(path)[0])
    for part in (before, before.preferences, before.state):
        part.MergeFromString(_NEWER)
    znodes.set(path, before.SerializeToString())
    record = await store.subscriptions.read(ORDERS, PICKY)
    assert record is not None
    moved = SubscriptionData(state=SubscriptionState(MessageSeqId(7)))
    version = await store.subscriptions.update(ORDERS, PICKY, moved, record.version)
    stored = _without_stamp(znodes.get(path)[0], pb.SubscriptionData())
    before.state.msgId.localComponent = 7
    assert pb.SubscriptionData.FromString(stored) == before
    assert stored.count(_NEWER) == 3
    again = await store.subscriptions.read(ORDERS, PICKY)
    assert again is not None
    assert again.version == version
    assert again.value.preferences == stage.topics[ORDERS].subscriptions[PICKY].preferences


async def test_changing_preferences_keeps_the_pointer(store: MetadataStore, stage: Stage) -> None:
    record = await store.subscriptions.read(ORDERS, PICKY)
    assert record is not None
    wanted = SubscriptionPreferences(message_window_size=1)
    data = SubscriptionData(preferences=wanted)
    await store.subscriptions.update(ORDERS, PICKY, data, record.version)
    again = await store.subscriptions.read(ORDERS, PICKY)
    assert again is not None
    assert again.value == SubscriptionData(preferences=wanted, state=stage.topics[ORDERS].subscriptions[PICKY].state)


async def test_ledger_ranges_of_the_original_can_be_continued(
    store: MetadataStore, znodes: KazooClient, stage: Stage, root: str
) -> None:
    path = f"{root}/topics/orders/ledgers"
    before = pb.LedgerRanges.FromString(znodes.get(path)[0])
    before.ranges[0].MergeFromString(_NEWER)
    znodes.set(path, before.SerializeToString())
    record = await store.persistence.read(ORDERS)
    assert record is not None
    *closed, last = record.value.ranges
    longer = LedgerRanges((*closed, replace(last, end=MessageSeqId(12)), LedgerRange(ledger_id=99, start=13)))
    await store.persistence.write(ORDERS, longer, record.version)
    stored = pb.LedgerRanges.FromString(_without_stamp(znodes.get(path)[0], pb.LedgerRanges()))
    before.ranges[-1].endSeqIdIncluded.localComponent = 12
    before.ranges.add(ledgerId=99, startSeqIdIncluded=13)
    assert stored == before


async def test_claim_and_release_of_an_owner_that_the_original_recorded(
    store: MetadataStore, znodes: KazooClient, stage: Stage, root: str
) -> None:
    topic = next(name for name, records in stage.topics.items() if records.owner)
    record = await store.ownership.read(topic)
    assert record is not None
    us = HubInfo(host="hub.example", port=4080, ssl_port=None, epoch=1 << 40)
    version = await store.ownership.write(topic, us, record.version)
    path = f"{root}/topics/{topic.decode()}/hub"
    assert znodes.get(path)[0] == b'hostname: "hub.example:4080:-1"\nczxid: 1099511627776\n'
    with pytest.raises(BadVersionError):
        await store.ownership.delete(topic, record.version)
    await store.ownership.delete(topic, version)
    assert znodes.exists(path) is None


async def test_subscription_that_the_original_changes_meanwhile_is_refused_to_us(
    store: MetadataStore, znodes: KazooClient, stage: Stage, root: str
) -> None:
    record = await store.subscriptions.read(ORDERS, PICKY)
    assert record is not None
    path = f"{root}/topics/orders/subscribers/picky"
    znodes.set(path, _node(stage, "/topics/orders/subscribers/picky"))  # The same bytes: only the version differs.
    moved = SubscriptionData(state=SubscriptionState(MessageSeqId(9)))
    with pytest.raises(BadVersionError):
        await store.subscriptions.update(ORDERS, PICKY, moved, record.version)
    with pytest.raises(SubscriptionStateExistsError):
        await store.subscriptions.create(ORDERS, PICKY, moved)
    assert znodes.get(path)[0] == _node(stage, "/topics/orders/subscribers/picky")
