"""Prove that the running original reads, serves and continues our records, and what it does to our stamp."""

import re
from dataclasses import replace
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.metadata import MetadataStore
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    RegionSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
    UnknownFields,
)
from hedwig.versions import NEW
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.escaped_names import ESCAPED_SUBSCRIBER, ESCAPED_TOPICS
from tests.java_hedwig.support.hub_client import RefusedByHubError, preferences
from tests.java_hedwig.support.scenario import EXISTING_FILTER
from tests.java_hedwig.support.stack import REGION_PATH, JavaStack, eventually
from tests.java_hedwig.support.znodes import read_tree

__all__: list[str] = []

S: Final = SubscriberId(b"s")
ATTACH: Final = pb.SubscribeRequest.ATTACH
_NEWER: Final = b"\x92\x7d\x05newer"
"""Field 2002 of five bytes, which no reader knows."""
TOPICS: Final = f"{REGION_PATH}/topics"


def _at(local: int, *remote: RegionSeqId) -> SubscriptionData:
    return SubscriptionData(state=SubscriptionState(MessageSeqId(local, remote)))


async def _ranges(store: MetadataStore, topic: Topic) -> list[tuple[int | None, int | None]]:
    record = await store.persistence.read(topic)
    assert record is not None
    return [(one.start, None if one.end is None else one.end.local) for one in record.value.ranges]


# ----------------------------------------------------------------------------------------------------- layout and names


async def test_hub_takes_our_layout_record_as_its_own(stack: JavaStack, raw: KazooClient) -> None:
    data, stat = raw.get(f"{REGION_PATH}/managers/METADATA/LAYOUT")
    assert data == b'managerImpl: "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"\nmanagerVersion: 1\n'
    assert stat.mzxid == stat.czxid < stack.hub_info(raw).epoch


@pytest.mark.parametrize("name", ["made-before-the-hub", "plain", "nest/inner/deep", "süß/話題", "100%=a b.\"'"])
async def test_topic_that_we_created_is_claimed_and_served(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient, name: str
) -> None:
    topic = Topic(name.encode())
    if await shared.persistence.read(topic) is None:
        await shared.persistence.write(topic, LedgerRanges(), NEW)
    with stack.client() as client:
        assert [client.publish(topic, b"m") for _ in range(2)] == [1, 2]
    assert await _ranges(shared, topic) == [(1, None)]
    owner = await shared.ownership.read(topic)
    assert owner is not None
    assert owner.value == stack.hub_info(raw)


async def test_hub_does_not_touch_what_has_an_escaped_name(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    with stack.client() as client:
        client.publish(b"made-before-the-hub", b"m")
    nodes = {node.path: node for node in read_tree(raw, TOPICS)}
    born = stack.hub_info(raw).epoch
    for topic, component in ESCAPED_TOPICS.items():
        below = [node for path, node in nodes.items() if path.startswith(f"/{component}/")]
        # The ledgers, the parent of the subscriptions, and the two subscriptions.
        assert len(below) == 4
        assert all(node.czxid < born and not node.ephemeral for node in below)
        for name in (S, ESCAPED_SUBSCRIBER):
            record = await shared.subscriptions.read(topic, name)
            assert record is not None
            assert record.value == _at(3)
    seen = {topic async for topic in shared.topics()}
    assert {*ESCAPED_TOPICS, Topic(b"made-before-the-hub")} <= seen


async def test_console_of_the_original_reads_our_records(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    topic = Topic("console/süß".encode())
    ranges = LedgerRanges((LedgerRange(ledger_id=1 << 40, start=1, end=MessageSeqId(9, (RegionSeqId(b"east", 7),))),))
    await shared.persistence.write(topic, ranges, NEW)
    owner = HubInfo(host="127.0.0.7", port=4080, ssl_port=None, epoch=1 << 40)
    await shared.ownership.write(topic, owner, NEW)
    wanted = SubscriptionPreferences(options={"k": b"v"}, message_bound=5, message_window_size=2)
    data = replace(_at(4, RegionSeqId(b"east", 6)), preferences=wanted)
    await shared.subscriptions.create(topic, S, data)
    said = stack.console("describe", "topic", topic.decode())
    assert 'Owner : hostname: "127.0.0.7:4080:-1", czxid: 1099511627776' in said
    assert "Ledger 1099511627776 [ 1 ~ 9 ]" in said
    assert (
        "Subscriber s : State : { consumeSeqId: local:4;east:6 };"
        "Preferences : { System Preferences : [(messageBound=5)], Customized Preferences : [k=v] };" in said
    )
    listed = re.search(r"^\[(.*)\]$", stack.console("show", "topics"), re.MULTILINE)
    assert listed is not None
    # The console lists the nodes directly under `topics`, so it shows escaped names as stored.
    assert {"console", *ESCAPED_TOPICS.values()} <= set(listed[1].split(", "))


# -------------------------------------------------------------------------------------------------------- subscriptions


async def test_hub_attaches_to_our_subscription_with_the_preferences_that_we_stored(
    stack: JavaStack, shared: MetadataStore
) -> None:
    topic = Topic(b"attached")
    wanted = SubscriptionPreferences(
        options={"colour": b"blue", "größe": b"\x00\xff"},
        message_bound=100,
        message_filter=EXISTING_FILTER,
        message_window_size=2,
    )
    await shared.subscriptions.create(topic, S, replace(_at(0), preferences=wanted))
    await shared.subscriptions.create(topic, SubscriberId(b"bare"), _at(0))
    with stack.client() as client, stack.client() as other:
        effective = client.subscribe(topic, S, mode=ATTACH)
        assert effective == preferences(wanted.options, 100, EXISTING_FILTER, 2)
        # The original takes a record without preferences for one of release 4.0: a bound of 0, which is no bound.
        assert other.subscribe(topic, b"bare", mode=ATTACH) == preferences(bound=0)
        assert [other.publish(topic, body) for body in (b"a", b"b", b"c")] == [1, 2, 3]
        assert client.deliveries(2) == [(1, b"a"), (2, b"b")]
        # The window holds the third message back until a consume.
        client.consume(topic, S, 1)
        assert client.deliveries(1) == [(3, b"c")]
        assert other.deliveries(3) == [(1, b"a"), (2, b"b"), (3, b"c")]


async def test_subscription_that_we_ended_is_unknown_to_the_hub(stack: JavaStack, shared: MetadataStore) -> None:
    topic = Topic(b"ended")
    version = await shared.subscriptions.create(topic, S, _at(0))
    await shared.subscriptions.delete(topic, S, version)
    with stack.client() as client, pytest.raises(RefusedByHubError) as refused:
        client.subscribe(topic, S, mode=ATTACH)
    assert refused.value.status == pb.CLIENT_NOT_SUBSCRIBED


async def test_delivery_starts_at_our_pointer_and_ledgers_go_on_after_ranges_that_we_rewrote(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    topic = Topic(b"continued")
    with stack.client() as client:
        assert [client.publish(topic, b"m%d" % number) for number in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    stack.stop_hub()
    try:
        written = await shared.persistence.read(topic)
        assert written is not None
        assert await _ranges(shared, topic) == [(1, 4), (5, None)]
        newer = UnknownFields("protobuf", _NEWER)
        first, last = written.value.ranges
        ours = LedgerRanges((replace(first, unknown=newer), replace(last, unknown=newer)), unknown=newer)
        await shared.persistence.write(topic, ours, written.version)
        stored = raw.get(f"{TOPICS}/continued/ledgers")[0]
        assert pb.LedgerRanges.FromString(stored).HasField("writeStamp")
        assert stored.count(_NEWER) == 3
        await shared.subscriptions.create(topic, S, _at(2))
    finally:
        stack.start_hub()
    with stack.client() as client:
        client.subscribe(topic, S, mode=ATTACH)
        assert client.deliveries(4) == [(number, b"m%d" % number) for number in (3, 4, 5, 6)]
        assert client.publish(topic, b"m7") == 7
        assert client.deliveries(1) == [(7, b"m7")]
    assert await _ranges(shared, topic) == [(1, 4), (5, 6), (7, None)]
    now = await shared.persistence.read(topic)
    assert now is not None
    assert [one.ledger_id for one in now.value.ranges[:2]] == [one.ledger_id for one in written.value.ranges]
    # The hub keeps a closed range with its unknown fields. It writes the range that it closes anew, without fields
    # beside it.
    assert [one.unknown for one in now.value.ranges] == [newer, None, None]
    assert now.value.unknown is None
    assert not pb.LedgerRanges.FromString(raw.get(f"{TOPICS}/continued/ledgers")[0]).HasField("writeStamp")


# -------------------------------------------------------------------------------------------- what becomes of our stamp


async def test_hub_drops_our_stamp_when_it_rewrites_a_record_and_our_versions_go_on(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    topic, path = Topic(b"restamped"), f"{TOPICS}/restamped"
    await shared.persistence.write(topic, LedgerRanges(), NEW)
    wanted = SubscriptionPreferences(options={"k": b"v"})
    await shared.subscriptions.create(topic, S, replace(_at(0), preferences=wanted))
    with stack.client() as client:
        client.publish(topic, b"m")
        client.subscribe(topic, S, mode=ATTACH)
        client.consume(topic, S, 1)
        eventually("the hub stored the pointer", lambda: raw.exists(f"{path}/subscribers/s").version == 1)
    # State with a pointer of 1, preferences with one option, and nothing after them.
    assert raw.get(f"{path}/subscribers/s")[0] == bytes.fromhex("0a040a020801120a0a080a060a016b120176")
    assert not pb.LedgerRanges.FromString(raw.get(f"{path}/ledgers")[0]).HasField("writeStamp")
    # The hub's record has no token, and its version is like any other.
    record = await shared.subscriptions.read(topic, S)
    assert record is not None
    assert record.value == replace(_at(1), preferences=wanted)
    version = await shared.subscriptions.update(topic, S, _at(1), record.version)
    again = await shared.subscriptions.read(topic, S)
    assert again is not None
    assert again.version == version != record.version
    stored = pb.SubscriptionData.FromString(raw.get(f"{path}/subscribers/s")[0])
    assert stored.HasField("writeStamp")
    assert not stored.writeStamp.HasField("previousToken")


async def test_fields_unknown_to_the_hub_survive_it_inside_a_part_and_not_beside_the_parts(
    stack: JavaStack, shared: MetadataStore, raw: KazooClient
) -> None:
    """A newer minor format that shares a store with Java hubs may add fields only where those hubs keep them."""
    topic, path = Topic(b"newer"), f"{TOPICS}/newer/subscribers/s"
    data = replace(_at(0), preferences=SubscriptionPreferences())
    await shared.subscriptions.create(topic, S, data)
    message = pb.SubscriptionData.FromString(raw.get(path)[0])
    for part in (message, message.state, message.preferences):
        part.MergeFromString(_NEWER)
    raw.set(path, message.SerializeToString())
    with stack.client() as client:
        client.publish(topic, b"m")
        client.subscribe(topic, S, mode=ATTACH)
        client.consume(topic, S, 1)
        eventually("the hub stored the pointer", lambda: raw.exists(path).version == 2)
    kept = pb.SubscriptionData()
    kept.state.msgId.localComponent = 1
    kept.preferences.SetInParent()
    for part in (kept.state, kept.preferences):
        part.MergeFromString(_NEWER)
    assert raw.get(path)[0] == kept.SerializeToString()
