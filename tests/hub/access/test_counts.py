"""Prove that no more topics and subscriptions are made than limits say, and that what is left can be made."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hedwig.access import Limit, Pattern, Principal, parse_rule
from hedwig.client import HedwigClient
from hedwig.clock import SystemClock
from hedwig.errors import (
    HedwigError,
    QuotaExceededError,
    ServiceDownError,
    UncertainStateError,
)
from hedwig.hub.access.counts import Counts, Making, _Bound
from hedwig.metadata import MetadataStore, format_metadata, open_metadata
from hedwig.metadata.access.count_records import Counted, CountKey, CountRecords, count_of
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import CreateOrAttach, Message, Publish, RefusalKind, Subscribe, Unsubscribe
from tests.faults.support.waiting import until
from tests.hub.access.conftest import Start
from tests.hub.conftest import Connect
from tests.hub.support.wire_client import WireClient, eventually
from tests.support.endings import end_all


def key_of(pattern: str, counted: Counted = Counted.TOPICS) -> CountKey:
    return CountKey(counted, Pattern.parse(pattern))


async def publish(client: WireClient, topic: bytes) -> StatusCode:
    answer = await client.request(topic, Publish(Message(b"m")))
    assert answer.status is StatusCode.SUCCESS or answer.refusal is RefusalKind.QUOTA_EXCEEDED, answer
    return answer.status


async def subscribe(client: WireClient, topic: bytes, subscriber: bytes, **options: object) -> StatusCode:
    answer = await client.request(topic, Subscribe(subscriber=SubscriberId(subscriber), **options))  # type: ignore[arg-type]
    return answer.status


# ------------------------------------------------------------------------------------------------------ in a hub


async def test_no_more_topics_are_made_than_a_limit_says(start: Start, connect: Connect) -> None:
    hub = await start("limit user:local topics_max=3 shop/*")
    client = await connect(hub)
    assert await publish(client, b"shop/1") is StatusCode.SUCCESS
    assert await publish(client, b"elsewhere") is StatusCode.SUCCESS
    sent = [client.send(b"shop/%d" % number, Publish(Message(b"m"))) for number in range(2, 22)]
    answers = [await client.answer(each) for each in sent]
    made = [answer for answer in answers if answer.status is StatusCode.SUCCESS]
    refused = [answer for answer in answers if answer.status is not StatusCode.SUCCESS]
    assert (len(made), len(refused)) == (2, 18)
    assert {answer.refusal for answer in refused} == {RefusalKind.QUOTA_EXCEEDED}
    assert refused[0].text is not None
    assert "there are 3 already: limit user:local topics_max=3 shop/*" in refused[0].text
    assert all(answer.retry_after_ms is not None and answer.retry_after_ms <= 1000 for answer in refused)
    assert hub.counters()["makings_over_limits"] == 18
    assert await count_of(hub.metadata, key_of("shop/*")) == 3
    assert await publish(client, b"shop/1") is StatusCode.SUCCESS, "what there is goes on"
    assert await publish(client, b"elsewhere/2") is StatusCode.SUCCESS


async def test_topics_that_there_are_count_before_the_first_is_made(start: Start, connect: Connect) -> None:
    hub = await start()
    client = await connect(hub)
    for topic in (b"shop/1", b"shop/2"):
        assert await publish(client, topic) is StatusCode.SUCCESS
    limit = parse_rule("limit * topics_max=3 shop/*")
    await RuleRecords(hub.metadata.named_records).change("*", lambda rules: (*rules, limit))
    assert hub.access is not None
    await hub.access.refresh()
    assert [await publish(client, b"shop/%d" % number) for number in (3, 4)] == [
        StatusCode.SUCCESS,
        StatusCode.SERVICE_DOWN,
    ]


async def test_a_request_that_makes_nothing_is_counted_for_nothing(start: Start, connect: Connect) -> None:
    hub = await start("limit * topics_max=1 shop/*")
    client = await connect(hub)
    answer = await client.request(b"shop/1", Unsubscribe(SubscriberId(b"reader")))
    assert answer.status is StatusCode.CLIENT_NOT_SUBSCRIBED
    assert await publish(client, b"shop/2") is StatusCode.SUCCESS
    assert await subscribe(client, b"shop/3", b"reader") is StatusCode.SERVICE_DOWN
    assert await subscribe(client, b"shop/3", b"reader", mode=CreateOrAttach.ATTACH) is StatusCode.CLIENT_NOT_SUBSCRIBED


async def test_who_waits_behind_a_refused_request_gets_an_answer_of_its_own(start: Start, connect: Connect) -> None:
    hub = await start("limit * topics_max=1 shop/*")
    client = await connect(hub)
    assert await publish(client, b"shop/1") is StatusCode.SUCCESS
    first = client.send(b"shop/2", Publish(Message(b"m")))
    second = client.send(b"shop/2", Unsubscribe(SubscriberId(b"reader")))
    third = client.send(b"shop/2", Publish(Message(b"m")))
    assert [(await client.answer(each)).status for each in (first, second, third)] == [
        StatusCode.SERVICE_DOWN,
        StatusCode.CLIENT_NOT_SUBSCRIBED,
        StatusCode.SERVICE_DOWN,
    ]


async def test_a_limit_with_the_name_of_the_user_counts_for_each(start: Start, connect: Connect) -> None:
    hub = await start("limit * topics_max=1 home/{user}/*")
    client = await connect(hub)
    assert [await publish(client, topic) for topic in (b"home/local/1", b"home/ann/1", b"home/ann/2")] == [
        StatusCode.SUCCESS
    ] * 3
    assert await publish(client, b"home/local/2") is StatusCode.SERVICE_DOWN


async def test_what_two_limits_count_is_counted_once_and_the_lower_one_counts(start: Start, connect: Connect) -> None:
    hub = await start("limit * topics_max=10 shop/*", "limit user:local topics_max=3 shop/*", "limit * topics_max=5 *")
    client = await connect(hub)
    made = [await publish(client, b"shop/%d" % number) for number in range(4)]
    assert made == [StatusCode.SUCCESS] * 3 + [StatusCode.SERVICE_DOWN]
    assert [await publish(client, b"t%d" % number) for number in range(3)] == [StatusCode.SUCCESS] * 2 + [
        StatusCode.SERVICE_DOWN
    ]


async def test_what_was_leased_by_one_limit_is_not_for_who_has_a_lower_one(store: MetadataStore) -> None:
    world = World(store, 0)
    world.start()
    (counts,) = world.alive.values()
    world.things.update(range(10))

    def by(most: int) -> Making:
        return Making(
            Principal("ann"), Counted.TOPICS, (Limit("*", Pattern.parse("*"), topics_max=most),), lambda: None
        )

    async with counts.making(by(100)):
        pass
    with pytest.raises(QuotaExceededError):
        async with counts.making(by(10)):
            pass
    await counts.close()


async def test_no_more_subscriptions_are_made_and_those_that_there_are_go_on(start: Start, connect: Connect) -> None:
    hub = await start("limit * subscriptions_max=2 *")
    first, second = await connect(hub), await connect(hub)
    assert await subscribe(first, b"t", b"a") is StatusCode.SUCCESS
    assert await subscribe(first, b"u", b"b") is StatusCode.SUCCESS
    assert await subscribe(second, b"t", b"c") is StatusCode.SERVICE_DOWN
    assert await subscribe(second, b"t", b"a") is StatusCode.TOPIC_BUSY, "it is there"
    await first.close()
    while (status := await subscribe(second, b"t", b"a")) is not StatusCode.SUCCESS:
        assert status is StatusCode.TOPIC_BUSY
    answer = await second.request(b"u", Unsubscribe(SubscriberId(b"b")))
    assert answer.status is StatusCode.SUCCESS
    assert await subscribe(second, b"t", b"c") is StatusCode.SUCCESS, "this hub has deleted one"


async def test_what_is_deleted_elsewhere_can_be_made_again_once_it_is_counted_anew(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedwig.hub.access.counts._AGE_S", 0.0)
    hub = await start("limit * subscriptions_max=1 *")
    client = await connect(hub)
    assert await subscribe(client, b"t", b"a") is StatusCode.SUCCESS
    assert await subscribe(client, b"t", b"b") is StatusCode.SERVICE_DOWN
    record = await hub.metadata.subscriptions.read(Topic(b"t"), SubscriberId(b"a"))
    assert record is not None
    await hub.metadata.subscriptions.delete(Topic(b"t"), SubscriberId(b"a"), record.version)

    async def is_made() -> bool:
        return await subscribe(client, b"t", b"b") is StatusCode.SUCCESS

    await eventually(is_made, "it is made")


async def test_a_hub_that_ends_gives_back_what_it_has_not_made(start: Start, connect: Connect, tmp_path: Path) -> None:
    hub = await start("limit * topics_max=1000 shop/*")
    client = await connect(hub)
    assert await publish(client, b"shop/1") is StatusCode.SUCCESS
    counts = CountRecords(hub.metadata.named_records)
    held = await counts.read(key_of("shop/*"))
    assert held is not None
    assert (held.number, list(held.leases.values())) == (100, [100])
    assert hub.incarnation._counts is not None
    await hub.incarnation._counts.close()
    left = await counts.read(key_of("shop/*"))
    assert left is not None
    assert (left.number, left.leases) == (1, {})


async def test_a_client_of_ours_learns_of_the_limit(start: Start) -> None:
    hub = await start("limit * topics_max=1 shop/*")
    async with HedwigClient(f"127.0.0.1:{hub.port}") as client:
        await client.publish("shop/1", b"m")
        with pytest.raises(QuotaExceededError, match="topics_max=1"):
            await client.subscribe("shop/2", "reader")


async def test_audit_mode_limits_nothing(start: Start, connect: Connect) -> None:
    hub = await start("limit * topics_max=1 *", mode="audit")
    client = await connect(hub)
    for topic in (b"a", b"b"):
        assert await publish(client, topic) is StatusCode.SUCCESS


# -------------------------------------------------------------------------------------------------------- at random

MOST = 40
LIMIT = Limit("*", Pattern.parse("*"), topics_max=MOST)
FEW = 8
KEY = key_of("*")
BOUND = _Bound(KEY, MOST)


class World:
    """Things that hubs make and delete, and a clock that a test moves. A count of them takes time."""

    def __init__(self, store: MetadataStore, seed: int, most: int = MOST) -> None:
        self.random = random.Random(seed)
        self.most = most
        limit = Limit("*", Pattern.parse("*"), topics_max=most)
        self._making = Making(Principal("ann"), Counted.TOPICS, (limit,), lambda: None)
        self.records = CountRecords(store.named_records)
        self.things: set[int] = set()
        self.alive: dict[int, Counts] = {}
        self.made = self.refused = 0
        self._next = 0
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return SystemClock.monotonic() + self.ahead_s

    def wall(self) -> float:
        return SystemClock.wall() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def count(self, _: CountKey) -> int:
        number = 0
        for low in range(0, self._next + 10, 10):
            number += sum(low <= each < low + 10 for each in self.things)
            for _turn in range(self.random.choice((1, 1, 5))):
                await asyncio.sleep(0)
        return number

    async def is_alive(self, hub: HubInfo) -> bool:
        return hub.port in self.alive

    def start(self) -> None:
        self._next += 1
        port = self._next
        me = HubInfo(host="hub", port=port)
        self.alive[port] = Counts(self.records, self.count, me, self.is_alive, lambda: float(port in self.alive), self)

    async def make(self, port: int) -> None:
        end = self.random.random()
        try:
            async with self.alive[port].making(self._making):
                if end < 0.1:
                    raise ServiceDownError("it was not made")
                for _ in range(self.random.choice((0, 1, 20))):
                    await asyncio.sleep(0)
                if port not in self.alive:
                    raise ServiceDownError("the store takes nothing of a dead hub")
                self._next += 1
                self.things.add(self._next)
                self.made += 1
                assert len(self.things) <= self.most
                if end < 0.2:
                    raise UncertainStateError("it was made")
        except QuotaExceededError:
            self.refused += 1
        except HedwigError:
            pass

    async def delete(self, port: int) -> None:
        if self.things:
            self.things.remove(self.random.choice(sorted(self.things)))
            if self.random.random() < 0.7:  # Else somebody deletes it whom no hub knows.
                self.alive[port].deleted(self._making)

    async def step(self) -> None:
        port = self.random.choice(sorted(self.alive))
        action = self.random.choices(
            ("make", "delete", "sweep", "close", "kill", "count", "wait"), (60, 30, 1, 1, 1, 4, 2)
        )[0]
        match action:
            case "make":
                await self.make(port)
            case "delete":
                await self.delete(port)
            case "sweep":
                await self.alive[port].sweep()
            case "close" | "kill":
                ended = self.alive[port]
                if action == "close":
                    await ended.close()
                self.alive.pop(port, None)
                await ended.abandon()
                self.start()
            case "count":
                await self.records.count_anew(KEY, lambda: self.count(KEY), self.is_alive, self.wall())
            case "wait":
                self.ahead_s += self.random.choice((1.0, 61.0, 601.0))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    url = f"sqlite://{tmp_path / 'metadata.db'}"
    await format_metadata(url)
    async with await open_metadata(url) as store:
        yield store


@pytest.mark.parametrize(
    ("error", "left"), [(ServiceDownError("not made"), 4), (UncertainStateError("perhaps"), 3), (ValueError("?"), 3)]
)
async def test_what_was_perhaps_made_stays_counted(store: MetadataStore, error: Exception, left: int) -> None:
    world = World(store, 0)
    world.start()
    (counts,) = world.alive.values()
    await world.records.count_anew(KEY, lambda: world.count(KEY), world.is_alive, world.wall())
    making = Making(Principal("ann"), Counted.TOPICS, (LIMIT,), lambda: None)
    with pytest.raises(type(error)):
        async with counts.making(making):
            raise error
    assert counts._leases[BOUND].has == left


async def test_who_is_cancelled_while_it_waits_has_taken_nothing(store: MetadataStore) -> None:
    world = World(store, 0)
    world.start()
    (counts,) = world.alive.values()
    other = Limit("*", Pattern.parse("t*"), topics_max=5)
    making = Making(Principal("ann"), Counted.TOPICS, (LIMIT, other), lambda: None)

    async def make() -> None:
        async with counts.making(making):
            raise AssertionError("nobody counts")

    counted = asyncio.Event()

    async def count(key: CountKey) -> int:
        if key != KEY:
            await counted.wait()
        return 0

    counts._count = count
    task = asyncio.create_task(make())
    await until(lambda: BOUND in counts._leases and counts._leases[BOUND].recorded, "it has the first")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counts._leases[BOUND].has == counts._leases[BOUND].recorded
    await counts.abandon()


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(6, 80))])
@pytest.mark.parametrize("most", [FEW, MOST])
async def test_a_limit_is_never_exceeded_whatever_hubs_do(store: MetadataStore, most: int, seed: int) -> None:
    world = World(store, seed, most)
    for _ in range(3):
        world.start()

    async def act() -> None:
        for _ in range(150):
            if not world.alive:
                await asyncio.sleep(0)
                continue
            await world.step()

    tasks = [asyncio.create_task(act()) for _ in range(8)]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end_all(tasks)
    assert world.made > most
    assert world.refused
    # What nobody has is found, once it is counted anew.
    for port in list(world.alive):
        await world.alive[port].close()
        del world.alive[port]
    counted = await world.records.count_anew(KEY, lambda: world.count(KEY), world.is_alive, world.wall())
    assert (counted.number, counted.leases) == (len(world.things), {})
