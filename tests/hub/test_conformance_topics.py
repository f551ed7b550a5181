"""Topics, over the wire: claims, takeovers, releases, redirects, all kinds of names, durable or not."""

import asyncio
from typing import Any, Final

import pytest

from hedwig.errors import (
    BadVersionError,
    LedgerFencedError,
    LedgerStoreLockedError,
    MetadataUnavailableError,
    StandaloneHubExistsError,
)
from hedwig.hub import standalone
from hedwig.hub.hub import Hub
from hedwig.metadata import format_metadata, open_metadata
from hedwig.metadata.managers import TablePersistenceManager
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    Topic,
)
from hedwig.status import StatusCode
from hedwig.versions import ANY, NEW, Version
from hedwig.wire import Action, CloseSubscription, CreateOrAttach, Message, Publish, Subscribe, Unsubscribe
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.conftest import Connect, StartHub
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import ChannelClosedError, WireClient, eventually

T, S = Topic(b"T"), SubscriberId(b"s")


async def owner_of(hub: Hub, topic: bytes = T) -> HubInfo | None:
    record = await hub.metadata.ownership.read(Topic(topic))
    return record.value if record is not None else None


async def ranges_of(hub: Hub) -> tuple[LedgerRange, ...]:
    record = await hub.metadata.persistence.read(T)
    assert record is not None
    return record.value.ranges


async def write_ranges(hub: Hub, *ranges: LedgerRange) -> None:
    """Write the record of the topic, as another client would."""
    await hub.metadata.persistence.write(T, LedgerRanges(ranges), ANY)


async def release(hub: Hub, topic: bytes = T) -> None:
    owned = hub.topics.get(Topic(topic))
    assert owned is not None
    await hub.topics.release(owned)


async def abandon(hub: Hub) -> None:
    """Make a former start of the hub own the topic, which never released it, instead of this one."""
    await release(hub)
    former = HubInfo(host=hub.me.host, port=hub.me.port, epoch=hub.me.epoch - 1)
    await hub.metadata.ownership.write(T, former, NEW)


async def ledger_with(hub: Hub, first: int, last: int, *, seal: bool) -> int:
    """Return a ledger with the messages `first` to `last`, as a former owner left it."""
    ledger_id = await hub.ledgers.create()
    for number in range(first, last + 1):
        stored = Message(b"%d" % number).accepted(MessageSeqId(number), b"standalone").encode()
        await hub.ledgers.append(ledger_id, number - first, stored)
    if seal:
        await hub.ledgers.close(ledger_id)
    return ledger_id


# --------------------------------------------------------------------------------------------------- claims


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


@pytest.mark.parametrize("epoch", [1, 2, 30, 4294967330])
async def test_a_topic_of_a_hub_of_a_former_cluster_is_taken_over(hub: Hub, client: WireClient, epoch: int) -> None:
    """Its epoch is the number of a ZooKeeper node, which may be less than a start count, equal, or far greater."""
    other = HubInfo(host="10.1.2.3", port=4080, epoch=epoch)
    await hub.metadata.ownership.write(T, other, NEW)
    assert await client.publish(T, b"m") == 1
    assert await owner_of(hub) == hub.me


async def test_a_topic_of_a_former_start_is_taken_over(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await abandon(hub)
    before = await hub.metadata.persistence.read(T)
    assert await client.publish(T, b"3") == 3
    assert await owner_of(hub) == hub.me
    after = await hub.metadata.persistence.read(T)
    assert before is not None
    assert after is not None
    assert before.version != after.version


async def test_a_takeover_fences_the_open_ledger_of_the_former_owner(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    ledger_id = await ledger_with(hub, 1, 5, seal=False)
    await write_ranges(hub, LedgerRange(ledger_id=ledger_id, start=1))
    await client.subscribed(T, S)
    with pytest.raises(LedgerFencedError):
        await hub.ledgers.append(ledger_id, 5, b"late")
    assert (await ranges_of(hub))[0].end == MessageSeqId(5)
    assert await client.publish(T, b"6") == 6
    assert await client.delivered(1) == [6]


async def test_a_takeover_writes_the_ranges_even_if_nothing_changes(hub: Hub, client: WireClient) -> None:
    await hub.metadata.persistence.write(T, LedgerRanges(), NEW)
    await client.close_subscription(T, S)
    await abandon(hub)
    before = await hub.metadata.persistence.read(T)
    await client.close_subscription(T, S)
    after = await hub.metadata.persistence.read(T)
    assert before is not None
    assert after is not None
    assert (after.value, after.version == before.version) == (before.value, False)


@pytest.mark.parametrize("former", ["another hub", "this hub"])
async def test_a_takeover_that_fails_leaves_the_topic_to_be_taken_over(
    hub: Hub, client: WireClient, monkeypatch: pytest.MonkeyPatch, former: str
) -> None:
    """The next claim must shut out late writes of the former owner, and knows only from the record that it must."""
    owner = hub.me if former == "this hub" else HubInfo(host="10.1.2.3", port=4080, epoch=7)
    await hub.metadata.persistence.write(T, LedgerRanges(), NEW)
    await hub.metadata.ownership.write(T, owner, NEW)
    before = await hub.metadata.persistence.read(T)

    async def refuse(*_: object) -> Version:
        raise MetadataUnavailableError("the test refused it")

    with monkeypatch.context() as patch:
        patch.setattr(TablePersistenceManager, "write", refuse)
        for _ in range(2):
            assert (await client.request(T, Publish(Message(b"m")))).status is StatusCode.SERVICE_DOWN
            assert await owner_of(hub) == owner
    assert await client.publish(T, b"m") == 1
    assert await owner_of(hub) == hub.me
    assert before is not None
    with pytest.raises(BadVersionError):
        await hub.metadata.persistence.write(T, LedgerRanges(), before.version)


@pytest.mark.parametrize("before", [0, 5])
async def test_an_empty_last_ledger_says_nothing(hub: Hub, client: WireClient, before: int) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    ranges = []
    if before:
        ledger_id = await ledger_with(hub, 1, before, seal=True)
        ranges.append(LedgerRange(ledger_id=ledger_id, start=1, end=MessageSeqId(before)))
    empty = await ledger_with(hub, 1, 0, seal=False)
    await write_ranges(hub, *ranges, LedgerRange(ledger_id=empty, start=before + 1))
    await client.subscribed(T, S)
    assert await ranges_of(hub) == tuple(ranges)
    assert empty not in [ledger_id async for ledger_id in hub.ledgers.ledgers()]
    assert await client.publish(T, b"m") == before + 1


async def test_an_empty_last_ledger_behind_deleted_ones_keeps_the_ids(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    empty = await ledger_with(hub, 1, 0, seal=False)
    await write_ranges(hub, LedgerRange(ledger_id=empty, start=8))
    await client.subscribed(T, S)
    assert await client.publish_many(T, b"8", b"9") == [8, 9]
    assert await client.delivered(2) == [8, 9]


async def test_ranges_of_old_records_have_no_start(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    first, second = await ledger_with(hub, 3, 5, seal=True), await ledger_with(hub, 6, 7, seal=True)
    last = await ledger_with(hub, 8, 9, seal=False)
    await write_ranges(
        hub,
        LedgerRange(ledger_id=first, start=None, end=MessageSeqId(5)),
        LedgerRange(ledger_id=second, start=None, end=MessageSeqId(7)),
        LedgerRange(ledger_id=last, start=None),
    )
    await client.subscribed(T, S)
    assert [(each.start, each.end) for each in await ranges_of(hub)] == [
        (3, MessageSeqId(5)),
        (6, MessageSeqId(7)),
        (8, MessageSeqId(9)),
    ]
    assert await client.publish(T, b"10") == 10


async def test_an_old_record_of_one_open_range_begins_at_one(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    await abandon(hub)
    await write_ranges(hub, LedgerRange(ledger_id=await ledger_with(hub, 1, 4, seal=False), start=None))
    assert await client.publish(T, b"5") == 5


async def test_a_record_that_makes_no_sense_is_an_error_and_takes_no_topic(hub: Hub, client: WireClient) -> None:
    one = await ledger_with(hub, 1, 2, seal=False)
    two = await ledger_with(hub, 3, 4, seal=True)
    record = LedgerRanges((LedgerRange(ledger_id=one, start=1), LedgerRange(ledger_id=two, start=3)))
    await hub.metadata.persistence.write(T, record, NEW)
    answer = await client.request(T, Publish(Message(b"m")))
    assert answer.status is StatusCode.UNEXPECTED_CONDITION
    assert await owner_of(hub) is None
    await client.publish(b"another", b"m")


async def test_a_ledger_that_is_gone_is_an_error_and_takes_no_topic(hub: Hub, client: WireClient) -> None:
    record = LedgerRanges((LedgerRange(ledger_id=4711, start=1),))
    await hub.metadata.persistence.write(T, record, NEW)
    assert (await client.request(T, Publish(Message(b"m")))).status is StatusCode.UNEXPECTED_CONDITION
    assert await owner_of(hub) is None


async def test_an_owner_that_is_fenced_gives_the_topic_up_and_takes_it_anew(hub: Hub, client: WireClient) -> None:
    """This happens after a takeover that this hub does not know of yet."""
    await client.publish_many(T, b"1", b"2")
    (last,) = await ranges_of(hub)
    await hub.ledgers.open_and_fence(last.ledger_id)
    answer = await client.request(T, Publish(Message(b"lost")))
    assert answer.status is not StatusCode.SUCCESS
    assert await client.publish(T, b"3") == 3
    assert hub.topics.released == 1


async def test_an_owner_whose_ranges_were_changed_gives_the_topic_up(hub: Hub, client: WireClient) -> None:
    await client.publish_many(T, b"1", b"2")
    await write_ranges(hub, *await ranges_of(hub))  # The write gives the record a version that this hub does not know.
    ids = []
    for _ in range(10):
        answer = await client.request(T, Publish(Message(b"m")))
        if answer.published is not None:
            ids.append(answer.published.local)
    assert ids == list(range(3, 3 + len(ids)))
    assert hub.topics.released == 1


# -------------------------------------------------------------------------------------------------- releases


async def test_a_release_closes_the_serving_channels_and_sends_no_event(
    hub: Hub, client: WireClient, connect: Connect
) -> None:
    bystander, publisher = await connect(hub), await connect(hub)
    await client.subscribed(T, S)
    await client.subscribed(b"other topic", S)
    await bystander.subscribed(b"other topic", b"another")
    await publisher.publish(T, b"1")
    await client.deliveries(1)
    await release(hub)
    await client.closed_by_hub()
    assert client.events == []
    assert await owner_of(hub) is None
    await publisher.publish(b"other topic", b"m")
    await bystander.deliveries(1)
    again = await connect(hub)
    await again.subscribed(b"other topic", S)
    await again.subscribed(T, S)
    assert [each.topic for each in await again.deliveries(2)].count(T) == 1


async def test_a_released_topic_is_taken_again_at_the_next_request(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    owned = hub.topics.get(T)
    assert owned is not None
    releasing = asyncio.create_task(hub.topics.release(owned))
    sent = [client.send(T, Publish(Message(b"m"))) for _ in range(10)]
    assert [WireClient.published(await client.answer(txn_id)) for txn_id in sent] == list(range(2, 12))
    await releasing


async def test_requests_during_a_release_are_served_after_it(hub: Hub, client: WireClient, connect: Connect) -> None:
    other = await connect(hub)
    await other.subscribed(T, b"attached")
    await client.publish_many(T, b"1", b"2")
    owned = hub.topics.get(T)
    assert owned is not None
    with locked(hub):
        releasing = asyncio.create_task(hub.topics.release(owned))
        await eventually(lambda: not owned.is_serving, "the release began")
        subscribed = client.send(T, Subscribe(subscriber=S, mode=CreateOrAttach.CREATE))
        published = client.send(T, Publish(Message(b"3")))
        unsubscribed = client.send(T, Unsubscribe(SubscriberId(b"attached")))
        await client.barrier()
    await releasing
    assert (await client.answer(subscribed)).status is StatusCode.SUCCESS
    assert WireClient.published(await client.answer(published)) == 3
    assert (await client.answer(unsubscribed)).status is StatusCode.SUCCESS
    await other.closed_by_hub()


async def test_idle_topics_are_released_and_used_ones_are_not(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topic_idle_s=1.0, topic_sweep_s=0.05)
    client = await connect(hub)
    await client.subscribed(b"attached", S)
    await client.publish(b"idle", b"m")

    async def is_released() -> bool:
        await client.publish(b"used", b"m")
        return hub.topics.get(Topic(b"idle")) is None

    await eventually(is_released, "the idle topic is released")
    assert hub.topics.get(Topic(b"attached")) is not None
    assert hub.topics.get(Topic(b"used")) is not None
    assert await client.publish(b"idle", b"m") == 2


async def test_old_topics_are_released_used_or_not(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topic_age_s=1.0, topic_sweep_s=0.05)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.closed_by_hub()
    assert client.events == []


async def test_the_topics_unused_for_longest_make_room(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(topics_max=3, topic_sweep_s=3600.0, topic_idle_s=0.0)
    client = await connect(hub)
    await client.subscribed(b"T0", S)
    for number in range(1, 7):
        await client.publish(b"T%d" % number, b"m")
    await hub.topics.sweep()
    await eventually(lambda: len(hub.topics) == 3, "three are left")
    assert hub.topics.get(Topic(b"T0")) is not None


async def test_many_topics_at_once(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(acquisitions_max=5)
    client = await connect(hub)
    sent = [client.send(b"T%d" % (number % 300), Publish(Message(b"m"))) for number in range(600)]
    ids = [WireClient.published(await client.answer(txn_id)) for txn_id in sent]
    assert ids == [1] * 300 + [2] * 300


async def test_first_ledgers_are_made_few_at_a_time(
    start_hub: StartHub, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_hub(ledger_changes_max=3)
    create, at_once, most = hub.ledgers.create, 0, 0

    async def counted(*given: Any) -> int:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await create(*given)
        finally:
            at_once -= 1

    monkeypatch.setattr(hub.ledgers, "create", counted)
    client = await connect(hub)
    sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(100)]
    assert [WireClient.published(await client.answer(txn_id)) for txn_id in sent] == [1] * 100
    assert most == 3


async def test_topics_that_one_connection_asks_for_do_not_wait_for_those_of_another(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(acquisitions_max=2)
    greedy, modest = await connect(hub), await connect(hub)
    with locked(hub):
        # The other client later asks for one of these topics as well.
        sent = [greedy.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(500)]
        await eventually(lambda: hub.topics.waiting == 498, "the greedy one waits")
        asked = [modest.send(topic, Publish(Message(b"m"))) for topic in (b"mine", b"T400")]
        await modest.barrier()
    assert [WireClient.published(await modest.answer(txn_id)) for txn_id in asked] == [1, 2]
    assert len(greedy.answers) < 100
    assert [WireClient.published(await greedy.answer(txn_id)) for txn_id in sent] == [1] * 500


async def test_topics_that_one_connection_asks_for_do_not_take_the_places_of_others(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(acquisitions_max=1, acquisitions_waiting_max=50)
    greedy, modest = await connect(hub), await connect(hub)
    with locked(hub):
        sent = [greedy.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(100)]
        refused = [await greedy.answer(txn_id) for txn_id in sent[51:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
        asked = [modest.send(b"M%d" % number, Publish(Message(b"m"))) for number in range(30)]
        refused = [await modest.answer(txn_id) for txn_id in asked[16:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
    assert {(await modest.answer(txn_id)).status for txn_id in asked[:16]} == {StatusCode.SUCCESS}
    assert {(await greedy.answer(txn_id)).status for txn_id in sent[:51]} == {StatusCode.SUCCESS}


async def test_too_many_topics_that_wait_are_refused(start_hub: StartHub, connect: Connect) -> None:
    """Each connection may have sixteen requests in any case."""
    hub = await start_hub(acquisitions_max=1, acquisitions_waiting_max=5)
    client = await connect(hub)
    with locked(hub):
        sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(30)]
        refused = [await client.answer(txn_id) for txn_id in sent[17:]]
        assert {each.status for each in refused} == {StatusCode.SERVICE_DOWN}
    assert {(await client.answer(txn_id)).status for txn_id in sent[:17]} == {StatusCode.SUCCESS}


# ---------------------------------------------------------------------------------------- metadata without answers


async def test_metadata_that_do_not_answer_are_an_error_and_owned_topics_serve_on(
    start_hub: StartHub, connect: Connect
) -> None:
    hub = await start_hub(operation_timeout_s=0.3, ledger_messages_max=100)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.publish(T, b"1")
    with locked(hub):
        down = await client.request(b"new", Publish(Message(b"m")))
        assert down.status is StatusCode.SERVICE_DOWN, "it was surely not published"
        refused = await client.subscribe(T, b"new")
        assert refused.status in (StatusCode.SERVICE_DOWN, StatusCode.UNCERTAIN_STATE)
        assert await client.publish(T, b"2") == 2
        assert await client.delivered(2) == [1, 2]
    assert await client.publish(b"new", b"m") == 1
    await client.subscribed(T, b"new")


async def test_a_ledger_that_the_metadata_do_not_take_costs_no_id(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(operation_timeout_s=0.3, ledger_messages_max=3)
    client = await connect(hub)
    ids = await client.publish_many(T, b"1", b"2")
    with locked(hub):
        answers = [await client.request(T, Publish(Message(b"m"))) for _ in range(3)]
        ids += [each.published.local for each in answers if each.published is not None]
        # The current ledger takes them, unless the record may already say that it has ended.
        expected = {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN, StatusCode.UNCERTAIN_STATE}
        assert {each.status for each in answers} <= expected
    for _ in range(5):
        ids.append(await client.publish(T, b"m"))
    assert ids == list(range(1, len(ids) + 1))
    await client.subscribed(T, S)
    await client.publish(T, b"m")
    assert await client.delivered(1) == [len(ids) + 1]


# ------------------------------------------------------------------------------------------------------ names

NAMES = [
    b"x",
    b"x" * 8192,
    b"nul\0nul",
    b"\xff\xfe not utf-8 \x80",
    b"a/b",
    b"/leading",
    b"trailing/",
    b"double//slash",
    b".",
    b"..",
    b" ",
    b"\n",
    b"hub",
    b"__reserved",
    "Größe 🦔".encode(),
    b"%s{}\\",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
async def test_names_are_any_bytes(start_hub: StartHub, connect: Connect, name: bytes) -> None:
    async with await start_hub() as hub:
        client = await connect(hub)
        await client.subscribed(name, name)
        assert await client.publish(name, name) == 1
        delivery = await client.delivery()
        assert (delivery.topic, delivery.subscriber, delivery.message.body) == (name, name, name)
        await client.close()
    client = await connect(await start_hub())
    await client.subscribed(name, name, mode=CreateOrAttach.ATTACH)
    assert await client.delivered(1) == [1]
    assert (await client.unsubscribe(name, name)).status is StatusCode.SUCCESS


@pytest.mark.parametrize("name", [b"", b"x" * 8193])
async def test_names_beyond_the_limits_are_malformed(client: WireClient, name: bytes) -> None:
    for action in (Publish(Message(b"m")), Subscribe(subscriber=S), Unsubscribe(S), CloseSubscription(S)):
        assert (await client.request(name, action)).status is StatusCode.MALFORMED_REQUEST
    subscriber = SubscriberId(name)
    for action in (Subscribe(subscriber=subscriber), Unsubscribe(subscriber), CloseSubscription(subscriber)):
        assert (await client.request(T, action)).status is StatusCode.MALFORMED_REQUEST
    client.consume(name, S, 1)
    client.consume(T, name, 1)
    await client.publish(T, b"m")


# ---------------------------------------------------------------------------------------------- not durable


@pytest.fixture
async def fleeting(start_hub: StartHub) -> Hub:
    """A hub with some topics that are not durable."""
    return await start_hub(non_durable_topics=("live.*", "nobody"), cache_bytes=10_000)


async def test_a_non_durable_topic_delivers_to_who_is_there_and_keeps_nothing(fleeting: Hub, connect: Connect) -> None:
    client, other = await connect(fleeting), await connect(fleeting)
    assert await client.publish(b"live.1", b"unheard") == 1
    await client.subscribed(b"live.1", S)
    await other.subscribed(b"live.1", b"other")
    assert await client.publish_many(b"live.1", b"2", b"3") == [2, 3]
    assert await client.delivered(2) == [2, 3]
    assert await other.delivered(2) == [2, 3]
    assert (await fleeting.ledgers.stats()).ledgers == 0
    assert await fleeting.metadata.subscriptions.read(Topic(b"live.1"), S) is None
    assert await fleeting.metadata.persistence.read(Topic(b"live.1")) is None
    assert await client.publish(b"lively", b"m") == 1
    assert (await fleeting.ledgers.stats()).ledgers == 1, "no pattern matches this one"


async def test_a_non_durable_subscription_ends_with_its_channel(fleeting: Hub, connect: Connect) -> None:
    client, other = await connect(fleeting), await connect(fleeting)
    assert (await client.subscribe(b"live.1", S, mode=CreateOrAttach.ATTACH)).status is StatusCode.CLIENT_NOT_SUBSCRIBED
    await client.subscribed(b"live.1", S, mode=CreateOrAttach.CREATE)
    assert (await other.subscribe(b"live.1", S)).status is StatusCode.TOPIC_BUSY
    await client.close()
    await eventually(lambda: len(fleeting.channels) == 1, "the hub saw the end of the channel")
    await other.subscribed(b"live.1", S, mode=CreateOrAttach.CREATE)
    await other.publish(b"live.1", b"m")
    assert await other.delivered(1) == [1]
    other.consume(b"live.1", S, 1)
    assert (await other.unsubscribe(b"live.1", S)).status is StatusCode.SUCCESS
    assert (await other.unsubscribe(b"live.1", S)).status is StatusCode.CLIENT_NOT_SUBSCRIBED


async def test_publishing_to_nobody_can_be_refused(start_hub: StartHub, connect: Connect) -> None:
    hub = await start_hub(non_durable_topics=("nobody",), non_durable_refuses_nobody=True)
    client = await connect(hub)
    assert (await client.request(b"nobody", Publish(Message(b"m")))).status is StatusCode.NO_SUCH_TOPIC
    await client.subscribed(b"nobody", S)
    assert await client.publish(b"nobody", b"m") == 1
    await client.close_subscription(b"nobody", S)
    assert (await client.request(b"nobody", Publish(Message(b"m")))).status is StatusCode.NO_SUCH_TOPIC
    assert await client.publish(b"durable", b"m") == 1


async def test_a_slow_subscriber_of_a_non_durable_topic_misses_messages_and_holds_no_memory(
    fleeting: Hub, connect: Connect
) -> None:
    client = await connect(fleeting)
    await client.subscribed(b"live.1", S, preferences=SubscriptionPreferences(message_window_size=1))
    await client.publish_many(b"live.1", *[b"x" * 1000] * 50)
    assert await client.delivered(1) == [1]
    assert fleeting.tails.bytes <= 10_000
    client.consume(b"live.1", S, 1)
    (following,) = await client.delivered(1)
    assert 40 < following <= 50
    client.consume(b"live.1", S, following)
    assert await client.delivered(1) == [following + 1]


# ------------------------------------------------------------------------------------------- standalone


async def test_two_hubs_cannot_use_one_directory(hub: Hub, start_hub: StartHub) -> None:
    with pytest.raises(LedgerStoreLockedError):
        await start_hub()


async def test_two_hubs_cannot_use_one_metadata_store(
    start_hub: StartHub, connect: Connect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("shared")
    url = f"sqlite://{directory / 'metadata.db'}"
    await format_metadata(url)
    first = await start_hub(metadata=url)
    client = await connect(first)
    await client.publish(T, b"m")
    with pytest.raises(StandaloneHubExistsError):
        await start_hub(metadata=url, data_directory=directory / "other")
    await first.close()
    second = await start_hub(metadata=url, data_directory=directory / "other", replace_standalone=True)
    assert second.me.epoch > first.me.epoch
    async with await open_metadata(url) as store:
        registered = await store.standalone_hub()
    assert registered is not None
    assert registered.starts == second.me.epoch


async def test_every_start_is_another_epoch(start_hub: StartHub) -> None:
    epochs = []
    for _ in range(3):
        async with await start_hub() as hub:
            epochs.append(hub.me.epoch)
    assert epochs == sorted(set(epochs))


async def test_requests_during_the_shutdown_are_answered_or_their_channel_ends(hub: Hub, client: WireClient) -> None:
    await client.publish(T, b"1")
    closing = asyncio.create_task(hub.close())
    sent = [client.send(b"T%d" % number, Publish(Message(b"m"))) for number in range(20)]
    answers = []
    for txn_id in sent:
        try:
            answers.append(await client.answer(txn_id))
        except ChannelClosedError:
            break
    await closing
    assert {each.status for each in answers} <= {StatusCode.SUCCESS, StatusCode.SERVICE_DOWN}


async def test_start_and_stop_delivery_are_malformed(client: WireClient) -> None:
    for kind in (pb.START_DELIVERY, pb.STOP_DELIVERY):
        assert (await client.answer(client.send_raw(topic=T, type=kind))).status is StatusCode.MALFORMED_REQUEST
