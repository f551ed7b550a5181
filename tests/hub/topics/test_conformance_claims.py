"""Claims over the wire: which requests make or take a topic, and whom a redirect names."""

import asyncio
from typing import Final

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.hub import standalone
from hedwig.hub.hub import Hub
from hedwig.model import HubInfo, LedgerRanges, SubscriptionData, Topic
from hedwig.status import StatusCode
from hedwig.versions import NEW
from hedwig.wire import Action, CloseSubscription, CreateOrAttach, Message, Publish, Subscribe, Unsubscribe
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.topic_records import S, T, owner_of
from tests.hub.support.wire_client import WireClient, eventually

ATTACH: Final = Subscribe(subscriber=S, mode=CreateOrAttach.ATTACH)


@pytest.mark.parametrize("should_claim", [False, True])
async def test_any_request_claims_a_topic_that_exists(hub: Hub, client: WireClient, should_claim: bool) -> None:
    actions: dict[bytes, Action] = {
        b"publish": Publish(Message(b"m")),
        b"subscribe": Subscribe(subscriber=S),
        b"attach": ATTACH,
        b"unsubscribe": Unsubscribe(S),
        b"close": CloseSubscription(S),
    }
    for topic, action in actions.items():
        await hub.metadata.persistence.write(Topic(topic), LedgerRanges(), NEW)
        await client.request(topic, action, should_claim=should_claim)
        assert await owner_of(hub, topic) == hub.me
    await hub.metadata.persistence.write(Topic(b"consume"), LedgerRanges(), NEW)
    client.consume(b"consume", S, 1)
    await eventually(lambda: hub.topics.get(Topic(b"consume")) is not None, "a consume claims too")


@pytest.mark.parametrize("should_claim", [False, True])
async def test_requests_that_need_a_subscription_make_no_topic(
    fleeting: Hub, connect: Connect, should_claim: bool
) -> None:
    """The hub answers as if the topic existed: either way, it has no such subscription."""
    client = await connect(fleeting)
    for topic in (T, b"live.1"):
        for action, status in (
            (Unsubscribe(S), StatusCode.CLIENT_NOT_SUBSCRIBED),
            (CloseSubscription(S), StatusCode.SUCCESS),
            (ATTACH, StatusCode.CLIENT_NOT_SUBSCRIBED),
        ):
            sent = [client.send(topic, action, should_claim=should_claim) for _ in range(3)]
            assert [(await client.answer(txn_id)).status for txn_id in sent] == [status] * 3
        consumed = client.consume(topic, S, 1)
        await client.unsubscribe(topic, S)
        assert consumed not in client.answers
        assert not await fleeting.metadata.has_topic(Topic(topic))
    assert len(fleeting.topics) == fleeting.topics.acquired == 0
    assert fleeting.requests.unanswered_bytes == 0


@pytest.mark.parametrize("is_late", [False, True])
async def test_requests_that_make_no_topic_keep_their_place_beside_those_that_do(
    hub: Hub, connect: Connect, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """Requests before a SUBSCRIBE find nothing, whether or not the look-up has begun. Requests after it do."""
    exists, may_go = hub.metadata.has_topic, asyncio.Event()

    async def held(topic: Topic) -> bool:
        await may_go.wait()
        return await exists(topic)

    monkeypatch.setattr(hub.topics, "_exists", held)
    expected: tuple[tuple[Action, StatusCode], ...] = (
        (Unsubscribe(S), StatusCode.CLIENT_NOT_SUBSCRIBED),
        (ATTACH, StatusCode.CLIENT_NOT_SUBSCRIBED),
        (Subscribe(subscriber=S), StatusCode.SUCCESS),
        (Unsubscribe(S), StatusCode.SUCCESS),
        (ATTACH, StatusCode.CLIENT_NOT_SUBSCRIBED),
    )
    # On one connection, requests for one subscription run one after the other anyway.
    clients = [await connect(hub) for _ in expected]
    sent = []
    for client, (action, _) in zip(clients, expected, strict=True):
        sent.append(client.send(T, action))
        await client.barrier()
        if is_late:
            await eventually(lambda: hub.topics.acquiring - hub.topics.waiting == 1, "the topic is looked for")
    may_go.set()
    answers = [await client.answer(txn_id) for client, txn_id in zip(clients, sent, strict=True)]
    assert [answer.status for answer in answers] == [status for _, status in expected]


@pytest.mark.parametrize("left", ["subscription", "ranges", "owner"])
async def test_a_topic_of_which_anything_is_left_is_acquired_to_unsubscribe(
    hub: Hub, client: WireClient, left: str
) -> None:
    if left == "subscription":
        await hub.metadata.subscriptions.create(T, S, SubscriptionData())
    elif left == "ranges":
        await hub.metadata.persistence.write(T, LedgerRanges(), NEW)
    else:
        await hub.metadata.ownership.write(T, HubInfo(host="10.1.2.3", port=4080, epoch=1), NEW)
    expected = StatusCode.SUCCESS if left == "subscription" else StatusCode.CLIENT_NOT_SUBSCRIBED
    assert (await client.unsubscribe(T, S)).status is expected
    assert await owner_of(hub) == hub.me


async def test_whether_a_topic_exists_is_not_guessed(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(_: Topic) -> bool:
        raise MetadataUnavailableError("nobody answers")

    with monkeypatch.context() as patch:
        patch.setattr(hub.topics, "_exists", unknown)
        for action in (Unsubscribe(S), CloseSubscription(S), ATTACH):
            assert (await client.request(T, action)).status is StatusCode.SERVICE_DOWN
        consumed = client.consume(T, S, 1)
        assert (await client.answer(consumed)).status is StatusCode.SERVICE_DOWN
    assert (await client.unsubscribe(T, S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    assert hub.requests.unanswered_bytes == 0


async def test_a_redirect_names_the_owner_and_leaves_the_channel_open(
    start_hub: StartHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standalone hub can redirect only until it knows that it was replaced."""
    monkeypatch.setattr(standalone, "CHECK_S", 3600.0)
    hub = await start_hub()
    client = await connect(hub)
    epoch = await hub.metadata.register_standalone("its successor", "10.1.2.3:4080:9876", replace=True)
    other = HubInfo(host="10.1.2.3", port=4080, ssl_port=9876, epoch=epoch)
    await hub.metadata.ownership.write(T, other, NEW)
    for action in (Publish(Message(b"m")), Subscribe(subscriber=S), Unsubscribe(S)):
        answer = await client.request(T, action)
        assert (answer.status, answer.text) == (StatusCode.NOT_RESPONSIBLE_FOR_TOPIC, "10.1.2.3:4080:9876")
    consumed = client.consume(T, S, 1)
    assert (await client.answer(consumed)).status is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC
    await client.publish(b"another", b"m")


async def test_start_and_stop_delivery_are_malformed(client: WireClient) -> None:
    for kind in (pb.START_DELIVERY, pb.STOP_DELIVERY):
        assert (await client.answer(client.send_raw(topic=T, type=kind))).status is StatusCode.MALFORMED_REQUEST
