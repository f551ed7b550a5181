"""Prove that a limit bounds what of a topic is not consumed, that what has room passes, and consumers make room."""

import asyncio
import random
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import LedgerStoreUnavailableError, NotPermittedError, QuotaExceededError
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerStore
from hedwig.hub.subscriptions.operator_actions import Edge, OperatorActions
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.status import StatusCode
from hedwig.wire import Answer, Message, Publish, RefusalKind
from hedwig.wire.requests import Attempt
from tests.hub.access.conftest import Start, add_rules
from tests.hub.conftest import Connect
from tests.hub.support.wire_client import WireClient, eventually

T, S = Topic(b"shop/1"), SubscriberId(b"reader")
BODY = b"x" * 1000
LIMIT = "limit * backlog_bytes_max=16KiB shop/*"
ROOM = 16 << 10


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedwig.hub.subscriptions.backlogs._AGAIN_S", 0.05)


async def publish(client: WireClient, topic: bytes = T, body: bytes = BODY) -> Answer:
    answer = await client.request(topic, Publish(Message(body)))
    assert answer.status is StatusCode.SUCCESS or answer.refusal is RefusalKind.QUOTA_EXCEEDED, answer
    return answer


async def fill(client: WireClient, topic: bytes = T) -> int:
    """Publish until the hub has no room; return the id of the last message that it took."""
    last = refused = 0
    while refused < 2:
        published = (await publish(client, topic)).published
        if published is not None:
            last, refused = published.local, 0
        else:
            refused += 1  # The first time, the bound may be too high, and is measured for the next publish.
            await asyncio.sleep(0.1)
    return last


async def has_room(client: WireClient, topic: bytes = T) -> bool:
    return (await publish(client, topic)).published is not None


# ------------------------------------------------------------------------------------------------ what is bounded


async def test_a_topic_takes_no_more_than_the_limit_until_somebody_consumes(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    last = await fill(client)
    assert last in (14, 15), "each message has some 50 bytes more than its body"
    refused = await publish(client)
    assert refused.text is not None
    assert f"over the limit: {LIMIT}; " in refused.text
    assert "bytes of topic 'shop/1' are not consumed" in refused.text
    assert refused.retry_after_ms == 50
    assert hub.counters()["publishes_over_limits"] >= 1
    assert await has_room(client, b"elsewhere")
    assert await has_room(client, b"shop/2"), "each topic has a backlog of its own"
    client.consume(T, S, 10)
    await eventually(lambda: has_room(client), "what is consumed makes room")
    assert await fill(client) == last + 10


async def test_the_slowest_subscription_counts(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.subscribed(T, b"other")
    last = await fill(client)
    client.consume(T, S, last)
    await client.barrier()
    await asyncio.sleep(0.1)
    assert not await has_room(client)
    assert (await client.unsubscribe(T, b"other")).status is StatusCode.SUCCESS
    await eventually(lambda: has_room(client), "the subscription that was behind is gone")


async def test_without_subscriptions_there_is_no_backlog(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    for _ in range(100):
        await eventually(lambda: has_room(client), "nobody waits for these messages")


async def test_a_subscription_with_a_bound_is_behind_by_no_more_than_that(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S, preferences=SubscriptionPreferences(message_bound=5))
    for _ in range(60):
        await eventually(lambda: has_room(client), "older messages are not kept for it")


async def test_what_there_was_counts_after_a_restart(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT, hub={"ledger_messages_max": 4})
    client = await connect(hub)
    await client.subscribed(T, S)
    last = await fill(client)
    await client.close()
    await hub.close()
    hub = await start(hub={"ledger_messages_max": 4})
    client = await connect(hub)
    assert not await has_room(client), "it is measured before the first publish"
    client.consume(T, S, last - 1)
    await eventually(lambda: has_room(client), "most is consumed")


async def test_what_there_was_before_the_limit_counts(start: Start, connect: Connect) -> None:
    hub = await start()
    client = await connect(hub)
    await client.subscribed(T, S)
    for _ in range(30):
        assert await has_room(client)
    await add_rules(hub, LIMIT)
    assert not await has_room(client)
    client.consume(T, S, 29)
    await eventually(lambda: has_room(client), "all but one are consumed")


async def test_whoever_has_no_limit_fills_it_for_those_who_have(start: Start, connect: Connect) -> None:
    hub = await start("limit user:local backlog_bytes_max=16KiB shop/*", "limit user:ann publishes_per_s=1000 shop/*")
    client = await connect(hub)
    await client.subscribed(T, S)
    assert await has_room(client)
    assert hub.access is not None
    channel = next(iter(hub.channels))
    local, channel.caller = channel.caller, hub.access.caller("", {"subject": ((("commonName", "ann"),),)})
    assert channel.caller is not None
    for _ in range(40):
        assert await has_room(client)
    channel.caller = local
    assert not await has_room(client)


async def test_of_two_limits_the_lower_counts(start: Start, connect: Connect) -> None:
    hub = await start("limit * backlog_bytes_max=1MiB *", LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    assert await fill(client) in (14, 15)


async def test_whoever_has_a_higher_limit_does_not_exceed_it(start: Start, connect: Connect) -> None:
    limits = ("limit user:local backlog_bytes_max=4KiB *", "limit user:ann backlog_bytes_max=32KiB *")
    hub = await start(*limits, hub={"ledger_messages_max": 4})
    client = await connect(hub)
    await client.subscribed(T, S)
    assert hub.access is not None
    channel = next(iter(hub.channels))
    local, ann = channel.caller, hub.access.caller("", {"subject": ((("commonName", "ann"),),)})
    assert local is not None
    assert ann is not None
    channel.caller = ann
    assert await fill(client) in (30, 31)
    await client.close()
    await hub.close()
    hub = await start(hub={"ledger_messages_max": 4})
    client = await connect(hub)
    assert not await has_room(client), "the hub counts until it knows that the lower limit is reached"
    next(iter(hub.channels)).caller = ann
    assert not await has_room(client)


async def test_a_message_that_is_larger_than_the_limit_is_never_taken(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    answer = await client.request(T, Publish(Message(bytes(20_000))))
    assert (answer.status, answer.refusal) == (StatusCode.MALFORMED_REQUEST, RefusalKind.NOT_PERMITTED)
    async with HedwigClient(f"127.0.0.1:{hub.port}") as ours:
        with pytest.raises(NotPermittedError, match="a message of 200"):
            await ours.publish(T, bytes(20_000))


async def test_a_pointer_that_is_moved_back_counts(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    await client.subscribed(T, b"keeper")  # So that nothing is deleted.
    last = await fill(client)
    for subscriber in (S, b"keeper"):
        client.consume(T, subscriber, last)
    await eventually(lambda: has_room(client), "all is consumed")
    topic = hub.topics.get(T)
    assert topic is not None
    assert (await client.close_subscription(T, S)).status is StatusCode.SUCCESS
    actions = OperatorActions(hub.incarnation.subscriptions, hub.subscribing, hub.incarnation.backlogs)
    await actions.seek(topic, S, Edge.START, force=False, expected=None)
    assert not await has_room(client)


async def test_in_audit_mode_all_passes_and_is_counted(start: Start, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    hub = await start(LIMIT, mode="audit", audit_file=str(path))
    client = await connect(hub)
    await client.subscribed(T, S)
    for _ in range(30):
        assert await has_room(client)
    assert hub.counters()["publishes_over_limits"] >= 10
    await hub.close()
    assert "publish over a limit" in path.read_text()


# ---------------------------------------------------------------------------------------------- order and failures


async def test_what_is_sent_behind_a_refused_message_is_refused(start: Start, connect: Connect) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    last = await fill(client)
    client.consume(T, S, last - 5)
    await client.barrier()
    await asyncio.sleep(0.1)
    sent: list[int] = []
    for size in (2000, 9000, 10, 10):
        sent.append(client.send(T, Publish(Message(bytes(size)), previous=sent[-1] if sent else 0)))
    answers = [await client.answer(each) for each in sent]
    assert [answer.status is StatusCode.SUCCESS for answer in answers] == [True, False, False, False]


async def test_a_client_publishes_all_in_order_while_a_subscriber_consumes(start: Start) -> None:
    hub = await start(LIMIT)
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=60.0)
    async with HedwigClient(options) as client:
        subscription = await client.subscribe(T, "reader")
        bodies = [b"%d" % number + BODY for number in range(300)]

        async def read() -> list[bytes]:
            return [(await anext(subscription)).body for _ in bodies]

        reading = asyncio.create_task(read())
        published = [position.local async for position in client.publish_many(T, bodies)]
        assert published == sorted(published)
        assert await reading == bodies


async def publish_for_ever(client: HedwigClient) -> None:
    while True:
        await client.publish(T, BODY)


@pytest.mark.parametrize("publish_once", [False, True])
async def test_a_client_waits_for_room_until_its_deadline(start: Start, publish_once: bool) -> None:
    hub = await start(LIMIT)
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=1.5, publish_once=publish_once)
    async with HedwigClient(options) as client:
        await (await client.subscribe(T, "reader")).close()
        with pytest.raises(QuotaExceededError, match="over the limit") as told:
            await publish_for_ever(client)
        assert told.value.happened == "no"


async def test_a_repeat_of_a_stored_message_gets_its_id_though_the_topic_is_full(
    start: Start, connect: Connect
) -> None:
    hub = await start(LIMIT, hub={"repeat_window_s": 300.0})
    client = await connect(hub)
    await client.subscribed(T, S)

    async def once(sequence: int, age_ms: int = 0) -> Answer:
        attempt = Attempt(publisher=b"ann", sequence=sequence, age_ms=age_ms)
        return await client.request(T, Publish(Message(BODY), attempt=attempt))

    sequence = 1
    while (answer := await once(sequence)).published is not None:
        sequence += 1
    assert answer.refusal is RefusalKind.QUOTA_EXCEEDED
    repeat = await once(sequence - 1, age_ms=1000)
    assert repeat.published is not None
    assert repeat.published.local == sequence - 1


async def test_while_ledgers_do_not_tell_nothing_is_taken_and_afterwards_all_is(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    assert await has_room(client)
    await client.close()
    await hub.close()
    are_away = True
    bytes_from = LocalLedgerStore.bytes_from

    async def sometimes(self: LocalLedgerStore, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        if are_away:
            raise LedgerStoreUnavailableError("the test keeps them away")
        return await bytes_from(self, ledger_id, first_entry_id, enough=enough)

    monkeypatch.setattr(LocalLedgerStore, "bytes_from", sometimes)
    hub = await start()
    client = await connect(hub)
    for _ in range(3):
        answer = await client.request(T, Publish(Message(BODY)))
        assert (answer.status, answer.refusal) == (StatusCode.SERVICE_DOWN, None)
        assert answer.text is not None
        assert "cannot be told now: the test keeps them away" in answer.text
    assert (await client.request(b"elsewhere", Publish(Message(BODY)))).status is StatusCode.SUCCESS
    are_away = False
    await eventually(lambda: _is_taken(client), "the ledgers answer again")


async def _is_taken(client: WireClient) -> bool:
    return (await client.request(T, Publish(Message(BODY)))).status is StatusCode.SUCCESS


async def test_a_hub_that_ends_answers_those_who_wait(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start(LIMIT)
    client = await connect(hub)
    await client.subscribed(T, S)
    assert await has_room(client)
    await client.close()
    await hub.close()
    is_asked = asyncio.Event()

    async def never(self: LocalLedgerStore, ledger_id: int, first_entry_id: int, *, enough: int) -> int:
        is_asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(LocalLedgerStore, "bytes_from", never)
    hub = await start(hub={"operation_timeout_s": 1.0})
    client = await connect(hub)
    sent = [client.send(T, Publish(Message(BODY))) for _ in range(5)]
    await is_asked.wait()
    await hub.close()
    assert {(await client.answer(each)).status for each in sent} == {StatusCode.SERVICE_DOWN}
    assert hub.requests.unanswered_bytes == 0


# --------------------------------------------------------------------------------------------------------- at random


class World:
    """A hub with one topic, and what its subscribers have not consumed, as a client counts it."""

    def __init__(self, start: Start, connect: Connect, seed: int) -> None:
        self.random = random.Random(seed)
        self._start, self._connect = start, connect
        self.sizes: dict[int, int] = {}
        self.consumed = {b"slow": 0, b"fast": 0}
        self.hub: Hub
        self.client: WireClient

    @property
    def backlog(self) -> int:
        lowest = min(self.consumed.values())
        return sum(size for local, size in self.sizes.items() if local > lowest)

    async def begin(self, *limits: str) -> None:
        self.hub = await self._start(*limits, hub={"ledger_messages_max": 4, "retention_interval_s": 0.1})
        self.client = await self._connect(self.hub)
        for subscriber in self.consumed:
            await self.client.subscribed(T, subscriber)

    async def restart(self) -> None:
        await self.client.close()
        await self.hub.close()
        await self.begin()

    async def publish(self) -> None:
        bodies = [bytes(self.random.randrange(3000)) for _ in range(self.random.randrange(1, 12))]
        sent = [self.client.send(T, Publish(Message(body))) for body in bodies]
        for txn_id, body in zip(sent, bodies, strict=True):
            answer = await self.client.answer(txn_id)
            if answer.published is not None:
                self.sizes[answer.published.local] = len(body)
            else:
                assert answer.status is StatusCode.SERVICE_DOWN, answer
        assert self.backlog <= ROOM

    async def consume(self) -> None:
        subscriber = self.random.choice([*self.consumed])
        last = max(self.sizes, default=0)
        self.consumed[subscriber] = self.random.randint(min(self.consumed[subscriber], last), last)
        self.client.consume(T, subscriber, self.consumed[subscriber])
        await self.client.barrier()

    async def passes(self) -> None:
        """Publish what has room surely."""
        if self.backlog + 100 * sum(local > min(self.consumed.values()) for local in self.sizes) + 2000 < ROOM:
            await eventually(self._passes, "a message is taken for which there is room")

    async def _passes(self) -> bool:
        answer = await publish(self.client)
        if answer.published is not None:
            self.sizes[answer.published.local] = len(BODY)
        return answer.published is not None


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(4, 40))])
async def test_a_limit_is_never_exceeded_and_what_has_room_passes(start: Start, connect: Connect, seed: int) -> None:
    world = World(start, connect, seed)
    await world.begin(LIMIT)
    for _ in range(120):
        step = world.random.choices(
            [world.publish, world.consume, world.passes, world.restart], weights=[8, 6, 2, 0.4]
        )[0]
        await step()
