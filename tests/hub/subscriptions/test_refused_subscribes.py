"""A SUBSCRIBE that is refused for its filter changes nothing: no record, no preferences, no attachment."""

import pytest

from hedwig.hub.hub import Hub
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.property_filter import FILTER_NAME, FILTER_OPTION
from hedwig.status import StatusCode
from hedwig.wire import CreateOrAttach
from tests.hub.conftest import Connect, StartHub
from tests.hub.subscriptions.test_conformance_subscribe import detached, record_of
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")
ODD = "org.example.Odd"
REFUSED = {
    "unknown filter": SubscriptionPreferences(message_filter="org.example.Unknown", message_window_size=7),
    "wrong expression": SubscriptionPreferences(message_filter=FILTER_NAME, options={FILTER_OPTION: b"lang ="}),
    "no expression": SubscriptionPreferences(message_filter=FILTER_NAME, message_window_size=7),
    "refused options": SubscriptionPreferences(message_filter=ODD, options={"fail": b""}, message_window_size=7),
}
refused = pytest.mark.parametrize("asked", REFUSED.values(), ids=REFUSED.keys())


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    """A hub with a filter, and ledgers of three messages."""
    filters = {ODD: "tests.hub.support.odd_filter:OddFilter", "property": "tests.hub.support.odd_filter:odd_property"}
    return await start_hub(ledger_messages_max=3, filters=filters, non_durable_topics=("online*",))


async def assert_refused(
    client: WireClient, topic: bytes, asked: SubscriptionPreferences, *, force: bool = False
) -> None:
    answer = await client.subscribe(topic, S, preferences=asked, force=force)
    assert answer.status is StatusCode.INVALID_MESSAGE_FILTER


@refused
async def test_a_new_subscription_is_not_made(hub: Hub, client: WireClient, asked: SubscriptionPreferences) -> None:
    for mode in (CreateOrAttach.CREATE_OR_ATTACH, CreateOrAttach.CREATE):
        answer = await client.subscribe(T, S, mode=mode, preferences=asked)
        assert answer.status is StatusCode.INVALID_MESSAGE_FILTER
        assert await record_of(hub) is None
    await client.publish_many(T, *[b"1"] * 7)
    topic = hub.topics.get(T)
    assert topic is not None
    await eventually(lambda: topic.log.is_idle, "the log is idle")
    assert await hub.retention.collect(topic) == 6, "it does not hold retention back"


@refused
async def test_a_stored_subscription_stays_as_it_is(
    hub: Hub, client: WireClient, asked: SubscriptionPreferences
) -> None:
    was = SubscriptionPreferences(message_window_size=5)
    await client.subscribed(T, S, preferences=was)
    await client.close_subscription(T, S)
    before = await record_of(hub)
    await assert_refused(client, T, asked)
    assert (await client.subscribe(T, S, mode=CreateOrAttach.ATTACH, preferences=asked)).status is (
        StatusCode.INVALID_MESSAGE_FILTER
    )
    answer = await client.subscribe(T, S, mode=CreateOrAttach.CREATE, preferences=asked)
    assert answer.status is StatusCode.CLIENT_ALREADY_SUBSCRIBED
    assert await record_of(hub) == before
    assert await client.subscribed(T, S) == was, "its owner is not locked out"


@refused
@pytest.mark.parametrize("topic", [T, Topic(b"online")], ids=["durable", "not durable"])
async def test_whoever_is_attached_stays_so(
    hub: Hub, client: WireClient, connect: Connect, topic: Topic, asked: SubscriptionPreferences
) -> None:
    was = SubscriptionPreferences(message_window_size=5)
    await client.subscribed(topic, S, preferences=was)
    other = await connect(hub)
    await assert_refused(other, topic, asked, force=True)
    await assert_refused(client, topic, asked)
    await client.publish_many(topic, b"1", b"2")
    assert await client.delivered(2) == [1, 2]
    assert client.events == []
    assert await client.subscribed(topic, S) == was


@refused
async def test_a_subscription_of_a_non_durable_topic_is_not_kept(
    hub: Hub, client: WireClient, asked: SubscriptionPreferences
) -> None:
    await assert_refused(client, Topic(b"online"), asked)
    await detached(hub, b"online")


async def test_a_filter_may_read_options_that_are_on_record(client: WireClient) -> None:
    asked = SubscriptionPreferences(message_filter="property")
    await assert_refused(client, T, asked)
    options = {"property": b"number"}
    await client.subscribed(T, S, preferences=SubscriptionPreferences(options=options))
    await client.close_subscription(T, S)
    merged = SubscriptionPreferences(message_filter="property", options=options)
    assert await client.subscribed(T, S, preferences=asked) == merged


async def test_a_filter_is_judged_by_what_is_on_record_too(hub: Hub, client: WireClient) -> None:
    """The record may already have the filter, or the options that it reads, and the request changes the other."""
    filtered = SubscriptionPreferences(message_filter=ODD)
    await client.subscribed(T, S, preferences=filtered)
    await client.close_subscription(T, S)
    before = await record_of(hub)
    await assert_refused(client, T, SubscriptionPreferences(options={"fail": b""}))
    assert await record_of(hub) == before
    unfiltered = SubscriptionPreferences(message_filter="")
    await client.subscribed(T, S, preferences=unfiltered)
    await client.subscribed(T, S, preferences=SubscriptionPreferences(options={"fail": b""}))
    await client.close_subscription(T, S)
    before = await record_of(hub)
    await assert_refused(client, T, filtered)
    assert await record_of(hub) == before
