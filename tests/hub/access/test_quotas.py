"""Prove that nobody publishes more than a limit allows, that all of what is allowed passes, and that clients wait."""

import asyncio
import time
from pathlib import Path

import pytest

from hedwig.access import Limit, Principal, Rule, RuleBook, parse_rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.clock import SystemClock
from hedwig.errors import InvalidArgumentError, QuotaExceededError
from hedwig.hub.access.quotas import Connections, Quotas
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish, RefusalKind
from tests.faults.support.waiting import until
from tests.hub.access.conftest import Start
from tests.hub.conftest import Connect
from tests.hub.support.locked_metadata import locked
from tests.hub.support.wire_client import eventually

# ------------------------------------------------------------------------------------------------------- the words


@pytest.mark.parametrize(
    "text",
    [
        "limit user:ann publishes_per_s=10 orders/*",
        "limit group:shop publishes_per_s=0.5,publish_bytes_per_s=20MiB *",
        "limit * publish_bytes_per_s=1000 home/{user}/*",
        "limit group:shop publishes_per_s=5,connections=20 *",
        "limit * publish_bytes_per_s=1000,topics_max=5,subscriptions_max=60 home/{user}/*",
        "limit group:shop publishes_per_s=5,backlog_bytes_max=64MiB,topics_max=5 orders/*",
    ],
)
def test_a_limit_is_read_as_it_is_written(text: str) -> None:
    assert str(parse_rule(text)) == text
    assert parse_rule(str(parse_rule(text))) == parse_rule(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("limit user:ann *", "a limit is: limit user:NAME"),
        ("limit user:ann publishes_per_s=10 a as b", "a limit is: limit user:NAME"),
        ("limit ann publishes_per_s=10 *", "a rule is for user:NAME"),
        ("limit user:ann publishes_per_s=0 *", "above 0"),
        ("limit user:ann publishes_per_s=nan *", "above 0"),
        ("limit user:ann publishes_per_s=1e300 *", "above 0"),
        ("limit user:ann publishes_per_s=x *", "could not convert"),
        ("limit user:ann publish_bytes_per_s=5parsecs *", "has the unit"),
        ("limit user:ann backlog_bytes_max=0 *", "above 0"),
        ("limit user:ann topics=5 *", "each once"),
        ("limit user:ann connections=5 orders/*", "the pattern of their limit is"),
        ("limit user:ann connections=0.5 *", "invalid literal"),
        ("limit user:ann connections=0 *", "above 0"),
        ("limit user:ann publishes_per_s=1,publishes_per_s=2 *", "each once"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgumentError, match=why):
        parse_rule(text)


def test_rights_have_the_limits_of_all_whom_one_is() -> None:
    limits = [
        Limit.parse(f"limit {who} publishes_per_s=1 {topics}")
        for who, topics in (("user:ann", "a/*"), ("group:shop", "a/1"), ("*", "*"), ("user:bob", "a/*"), ("*", "b"))
    ]
    book = RuleBook.of([*limits, Rule.parse("allow * publish *")])
    ann = book.rights(Principal("ann", frozenset({"shop"})))
    assert set(ann.of(b"a/1").limits) == {limits[0], limits[1], limits[2]}
    assert set(ann.of(b"b").limits) == {limits[2], limits[4]}
    assert book.rights(Principal("eve")).of(b"a/1").limits == (limits[2],)


# ------------------------------------------------------------------------------------------------------ the counts


class ManualClock(SystemClock):
    """A clock that stands still until it is told to go on."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def take_all(quotas: Quotas, limits: tuple[Limit, ...], who: Principal, count: int, size: int = 0) -> int:
    """Publish until a limit refuses it, at most `count` times; return how often that was done."""
    for done in range(count):
        try:
            quotas.take(limits, who, size)
        except QuotaExceededError:
            return done
    return count


async def test_a_bucket_passes_its_rate_and_no_more() -> None:
    clock = ManualClock()
    quotas, limits, ann = Quotas(clock), (Limit.parse("limit user:ann publishes_per_s=50 *"),), Principal("ann")
    done = take_all(quotas, limits, ann, 1000)
    assert done == 50, "what comes in a second"
    for _ in range(1000):
        clock.advance(0.03)
        done += take_all(quotas, limits, ann, 10)
    assert done == pytest.approx(50 + 50 * 30, abs=2)
    clock.advance(3600.0)
    assert take_all(quotas, limits, ann, 1000) == 50, "nothing more is saved up"
    with pytest.raises(
        QuotaExceededError, match="over the limit of user:ann: limit user:ann publishes_per_s=50"
    ) as told:
        quotas.take(limits, ann, 0)
    assert told.value.retry_after_s == pytest.approx(0.02)
    clock.advance(0.021)
    quotas.take(limits, ann, 0)


async def test_bytes_are_counted_and_a_large_message_passes_at_last() -> None:
    clock = ManualClock()
    quotas, limits, ann = Quotas(clock), (Limit.parse("limit * publish_bytes_per_s=1000 *"),), Principal("ann")
    quotas.take(limits, ann, 5000)
    with pytest.raises(QuotaExceededError) as told:
        quotas.take(limits, ann, 1)
    assert told.value.retry_after_s == pytest.approx(4.001)
    clock.advance(4.01)
    quotas.take(limits, ann, 1)
    with pytest.raises(QuotaExceededError):
        quotas.take(limits, ann, 5000)


async def test_a_refused_message_is_counted_by_no_limit() -> None:
    quotas, ann = Quotas(ManualClock()), Principal("ann")
    wide, narrow = (Limit.parse(f"limit user:ann publishes_per_s={rate} *") for rate in (100, 1))
    assert take_all(quotas, (wide, narrow), ann, 50) == 1
    assert take_all(quotas, (wide,), ann, 200) == 99


async def test_a_group_shares_a_count_and_everybody_has_one() -> None:
    quotas = Quotas(ManualClock())
    ann, bob = (Principal(name, frozenset({"shop"})) for name in ("ann", "bob"))
    for text, expected in (
        ("limit group:shop publishes_per_s=10 *", (10, 0)),
        ("limit * publishes_per_s=10 *", (10, 10)),
        ("limit group:shop publishes_per_s=20 home/{user}/*", (20, 20)),
    ):
        limits = (Limit.parse(text),)
        assert tuple(take_all(quotas, limits, who, 100) for who in (ann, bob)) == expected, text


async def test_the_counts_of_many_users_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedwig.hub.access.quotas._BUCKETS_MAX", 100)
    clock = ManualClock()
    quotas, limits = Quotas(clock), (Limit.parse("limit * publishes_per_s=2 *"),)
    for number in range(1000):
        clock.advance(0.1)
        quotas.take(limits, Principal(f"u{number}"), 0)
    assert len(quotas._buckets) <= 200
    assert take_all(quotas, limits, Principal("u999"), 9) == 1, "who has published lately is not forgotten"


# --------------------------------------------------------------------------------------------------- over the wire


async def test_a_hub_says_when_to_try_again(start: Start, connect: Connect) -> None:
    hub = await start("limit user:local publishes_per_s=0.01 orders/*")
    client = await connect(hub)
    assert await client.publish(Topic(b"orders/1"), b"m") == 1
    answer = await client.request(Topic(b"orders/3"), Publish(Message(b"m")))
    assert (answer.status, answer.refusal) == (StatusCode.SERVICE_DOWN, RefusalKind.QUOTA_EXCEEDED)
    assert answer.retry_after_ms is not None
    assert 0 < answer.retry_after_ms <= 100_000
    assert answer.text is not None
    assert "limit user:local publishes_per_s=0.01 orders/*" in answer.text
    assert not await hub.metadata.has_topic(Topic(b"orders/3"))
    assert await client.publish(Topic(b"other"), b"m") == 1
    assert hub.counters()["publishes_over_limits"] == 1


async def test_in_audit_mode_all_passes_and_is_told(start: Start, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    hub = await start("limit user:local publishes_per_s=0.01 *", mode="audit", audit_file=str(path))
    client = await connect(hub)
    for number in range(1, 4):
        assert await client.publish(Topic(b"news"), b"m") == number
    assert hub.counters()["publishes_over_limits"] == 2
    await hub.close()
    assert "publish over a limit" in path.read_text()


async def test_a_publish_that_waits_while_rules_change_is_counted_once(start: Start, connect: Connect) -> None:
    hub = await start("limit user:local publishes_per_s=0.01 *", refresh_s=3600.0)
    assert hub.access is not None
    await RuleRecords(hub.metadata.named_records).replace("user:ann", (Rule.parse("allow user:ann publish ann/*"),))
    client = await connect(hub)
    with locked(hub):
        txn_id = client.send(b"new", Publish(Message(b"m")))
        await until(lambda: hub.requests.unanswered_bytes > 0, "the publish waits for its topic")
        book = hub.access.book
        await hub.access.refresh()
        assert hub.access.book is not book
    assert (await client.answer(txn_id)).status is StatusCode.SUCCESS
    assert (await client.request(b"new", Publish(Message(b"m")))).refusal is RefusalKind.QUOTA_EXCEEDED


async def test_a_client_publishes_all_in_order_at_the_rate_of_the_limit(start: Start) -> None:
    hub = await start("limit user:local publishes_per_s=200 *")
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port))
    async with HedwigClient(options) as client:
        subscription = await client.subscribe("news", "reader")
        began = time.monotonic()
        bodies = [b"%d" % number for number in range(600)]
        published = [position.local async for position in client.publish_many("news", bodies)]
        took_s = time.monotonic() - began
        assert published == list(range(1, 601))
        assert [(await anext(subscription)).body for _ in range(600)] == bodies
    # The first second's worth passes at once.
    assert took_s >= 1.9
    over = hub.counters()["publishes_over_limits"]
    assert over < 3000, f"the client tries again with few messages, and not with all: {over}"


async def test_a_client_fails_at_its_deadline_and_says_why(start: Start) -> None:
    hub = await start("limit user:local publishes_per_s=0.01 *")
    async with HedwigClient(f"127.0.0.1:{hub.port}") as client:
        await client.publish("news", b"m")
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=3.0)
    async with HedwigClient(options) as client:
        with pytest.raises(QuotaExceededError, match=r"not published within 3 s: .*the limit of user:local") as told:
            await client.publish("news", b"m")
        assert told.value.happened == "no"
        assert told.value.code is StatusCode.SERVICE_DOWN


async def test_other_users_and_topics_do_not_notice(start: Start) -> None:
    hub = await start("limit user:local publishes_per_s=5 slow/*")
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=30.0)
    async with HedwigClient(options) as client:
        slow = [asyncio.create_task(client.publish(f"slow/{number}", b"m")) for number in range(20)]
        fast = await asyncio.gather(*(client.publish("fast", b"m") for _ in range(500)))
        assert [each.local for each in fast] == list(range(1, 501))
        assert not all(task.done() for task in slow)
        assert [each.local for each in await asyncio.gather(*slow)] == [1] * 20


async def test_a_changed_limit_counts_at_once(start: Start, connect: Connect) -> None:
    hub = await start("limit user:local publishes_per_s=0.01 *")
    client = await connect(hub)
    for _ in range(2):
        last = await client.request(Topic(b"news"), Publish(Message(b"m")))
    assert last.refusal is RefusalKind.QUOTA_EXCEEDED
    assert hub.access is not None
    await RuleRecords(hub.metadata.named_records).change("user:local", lambda _: ())
    await hub.access.refresh()
    for _ in range(20):
        assert (await client.request(Topic(b"news"), Publish(Message(b"m")))).status is StatusCode.SUCCESS


# --------------------------------------------------------------------------------------------------- connections


class Connected:
    """A connection, as counts see it."""

    def __init__(self) -> None:
        self.counted_as: tuple[str, ...] = ()


def test_connections_are_counted_for_users_and_groups_until_they_end() -> None:
    counts = Connections()
    of_group, of_each = Limit.parse("limit group:shop connections=3 *"), Limit.parse("limit * connections=2 *")
    ann, bob = Principal("ann", frozenset({"shop"})), Principal("bob", frozenset({"shop", "it"}))
    first, second, third, fourth = (Connected() for _ in range(4))
    counts.take(first, ann, (of_group, of_each))
    counts.take(first, ann, (of_group, of_each))  # Again, as after a change of its groups.
    counts.take(second, ann, (of_group, of_each))
    with pytest.raises(QuotaExceededError, match=r"over the limit of user:ann: limit \* connections=2 \*"):
        counts.take(third, ann, (of_group, of_each))
    counts.take(third, bob, (of_group, of_each))
    with pytest.raises(QuotaExceededError, match="over the limit of group:shop"):
        counts.take(fourth, bob, (of_group, of_each))
    counts.leave(fourth)  # It was not counted.
    counts.leave(first)
    counts.leave(first)
    counts.take(fourth, bob, (of_group, of_each))
    for each in (second, third, fourth):
        counts.leave(each)
    assert not counts._counts


async def test_a_connection_too_many_is_refused_until_another_ends(start: Start, connect: Connect) -> None:
    hub = await start("limit * connections=2 *")
    first, second, third = await connect(hub), await connect(hub), await connect(hub)
    for each in (first, second):
        assert (await each.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS
    refused = await third.request(b"t", Publish(Message(b"m")))
    assert (refused.status, refused.refusal) == (StatusCode.SERVICE_DOWN, RefusalKind.QUOTA_EXCEEDED)
    assert refused.retry_after_ms == 1000
    assert refused.text is not None
    assert "over the limit of user:local: limit * connections=2 *" in refused.text
    await first.close()

    async def is_served() -> bool:
        return (await third.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS

    await eventually(is_served, "the place of the first is taken")
    fourth = await connect(hub)
    assert (await fourth.request(b"t", Publish(Message(b"m")))).refusal is RefusalKind.QUOTA_EXCEEDED


async def test_a_connection_too_many_is_closed(start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedwig.hub.access.access_control._OVER_S", 0.2)
    hub = await start("limit user:local connections=1 *")
    first, second = await connect(hub), await connect(hub)
    await until(lambda: len(hub.channels) == 1, "the second one is closed")
    assert (await first.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS
    await second.close()


async def test_a_connection_too_many_that_ends_by_itself_is_counted_for_nobody(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedwig.hub.access.access_control._OVER_S", 0.2)
    hub = await start("limit * connections=1 *")
    first, second = await connect(hub), await connect(hub)
    assert (await second.request(b"t", Publish(Message(b"m")))).refusal is RefusalKind.QUOTA_EXCEEDED
    await second.close()
    await first.close()
    await until(lambda: not hub.channels, "both are over")
    await asyncio.sleep(0.3)  # The time after which the hub looks at the second one is over.
    assert hub.access is not None
    assert not hub.access._connections._counts
    assert (await (await connect(hub)).request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS


async def test_a_connection_that_is_counted_stays_when_its_groups_change(start: Start, connect: Connect) -> None:
    hub = await start()
    channels = [await connect(hub) for _ in range(3)]
    for each in channels:
        assert (await each.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS
    assert hub.access is not None
    lower = parse_rule("limit * connections=1 *")
    await RuleRecords(hub.metadata.named_records).change(lower.who, lambda rules: (*rules, lower))
    await hub.access.refresh()
    for channel in list(hub.channels):
        hub.access.recount_connection(channel)
    assert sum(hub.access._connections._counts.values()) == 3
    for each in channels:
        assert (await each.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS


async def test_audit_mode_counts_connections_and_lets_them_pass(start: Start, connect: Connect) -> None:
    hub = await start("limit * connections=1 *", mode="audit")
    channels = [await connect(hub) for _ in range(3)]
    for each in channels:
        assert (await each.request(b"t", Publish(Message(b"m")))).status is StatusCode.SUCCESS
    assert hub.access is not None
    assert hub.access.connections_over_limits == 2


async def test_client_waits_for_a_connection(start: Start, connect: Connect) -> None:
    hub = await start("limit * connections=1 *")
    only = await connect(hub)
    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=30.0)) as client:
        publishing = asyncio.create_task(client.publish("t", b"m"))
        await asyncio.sleep(0)
        await until(lambda: hub.access is not None and hub.access.connections_over_limits == 1, "it is refused")
        await only.close()
        assert (await publishing).local == 1
