"""Prove that filters on properties accept the same messages in hubs and clients, and hold nothing back."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress, Message, Received, Subscription
from hedwig.errors import InvalidArgumentError, InvalidMessageFilterError
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.property_filter import FILTER_NAME, FILTER_OPTION, PropertyFilter
from hedwig.status import StatusCode
from hedwig.wire import Answer, Request, Subscribe
from tests.client.support.wire import Wire
from tests.faults.support.waiting import until
from tests.support.endings import end_all
from tests.support.servers import RunningServers

ANN = SubscriberId(b"ann")
DE, EN, NONE = {"lang": b"de"}, {"lang": b"en"}, dict[str, bytes]()

EXPRESSIONS = [
    ('lang = "de"', [DE], [EN, NONE]),
    ('lang in ("de", "en")', [DE, EN], [NONE, {"lang": b""}]),
    ('lang ^= "d"', [DE], [EN, NONE]),
    ('lang ^= ""', [DE, {"lang": b""}], [NONE]),
    ("has lang", [DE, EN, {"lang": b""}], [NONE]),
    ('not lang = "de"', [EN, NONE], [DE]),
    ('not not lang = "de"', [DE], [EN]),
    ('lang = "de" and has a', [{**DE, "a": b""}], [DE, {"a": b""}]),
    ('lang = "de" or lang = "en"', [DE, EN], [NONE]),
    ('has a or has b and lang = "de"', [{"a": b""}, {**DE, "b": b""}], [{"b": b""}, DE]),
    ('(has a or has b) and lang = "de"', [{**DE, "a": b""}], [{"a": b""}, DE]),
    ('not has a and lang="de"', [DE], [{**DE, "a": b""}, EN]),
    ('  has\n"a b"  ', [{"a b": b""}], [NONE]),
    ('"and" = "or"', [{"and": b"or"}], [NONE]),
    ('x-1.y_2 = "\\"\\\\\\x00\\xff"', [{"x-1.y_2": b'"\\\x00\xff'}], [NONE]),
    ('größe = "ü"', [{"größe": "ü".encode()}], [NONE]),
]
WRONG = [
    ("", "the name of a property at the end"),
    ("lang", r"'=', '\^=' or 'in' at the end"),
    ("lang = de", "a value in double quotes before 'de'"),
    ('lang = "de', "a value in double quotes before '\"de'"),
    ('lang = "de" "en"', "'and', 'or' or the end before"),
    ('lang in "de"', r"'\('"),
    ('lang in ("de" "en")', r"'\)'"),
    ("lang in ()", "a value"),
    ('(lang = "de"', r"'\)' at the end"),
    ('and = "x"', "the name of a property before 'and"),
    ("has has", "the name of a property"),
    ("lang ! 1", r"'=', '\^=' or 'in' before '! 1'"),
    ('lang = "\\q"', "backslash"),
    ('"\\xff" = "a"', "not UTF-8"),
    ("not " * 40 + "has a", "at most 32 deep"),
    ("(" * 40 + "has a" + ")" * 40, "at most 32 deep"),
    (f'lang = "{"x" * 1024}"', "at most 1024 bytes"),
]


@pytest.mark.parametrize(("expression", "accepted", "refused"), EXPRESSIONS)
def test_an_expression(expression: str, accepted: list[dict[str, bytes]], refused: list[dict[str, bytes]]) -> None:
    made = PropertyFilter(expression)
    assert [made.accepts(Message(b"", properties=each)) for each in accepted] == [True] * len(accepted)
    assert [made.accepts(Message(b"", properties=each)) for each in refused] == [False] * len(refused)


@pytest.mark.parametrize(("expression", "reason"), WRONG)
def test_a_wrong_expression_is_refused_with_its_place(expression: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        PropertyFilter(expression)


def test_no_text_makes_the_parser_fail_in_another_way() -> None:
    source = random.Random(1)
    parts = ['"', "\\", "(", ")", "=", "^=", ",", "a", "x41", " ", " and ", " or ", " not ", " has ", " in ", "é"]
    for _ in range(20_000):
        text = "".join(source.choices(parts, k=source.randrange(12)))
        try:
            made = PropertyFilter(text)
        except InvalidArgumentError:
            continue
        made.accepts(Message(b"", properties={"a": b"A"}))


# ---------------------------------------------------------------------------------------- at hubs, and in the client


@pytest.fixture
async def client(own_hub: HubAddress) -> AsyncIterator[HedwigClient]:
    async with HedwigClient(ClientOptions(hub=own_hub)) as made:
        yield made


@pytest.fixture
async def old(own_hub: HubAddress) -> AsyncIterator[HedwigClient]:
    """A client of a hub that does not know the filter."""

    def refuse(request: Request) -> Answer | None:
        action = request.action
        if isinstance(action, Subscribe) and action.preferences.message_filter == FILTER_NAME:
            return Answer(
                txn_id=request.txn_id, status=StatusCode.INVALID_MESSAGE_FILTER, text="there is no such filter"
            )
        return None

    async with Wire(own_hub) as wire:
        wire.asks_hub = True
        wire.intercept = refuse
        async with HedwigClient(ClientOptions(hub=wire.address)) as made:
            yield made


@pytest.fixture(params=["at the hub", "in the client"])
def filtering(request: pytest.FixtureRequest, client: HedwigClient, old: HedwigClient) -> HedwigClient:
    return client if request.param == "at the hub" else old


async def take(subscription: Subscription, count: int) -> list[Received]:
    return [await anext(subscription) for _ in range(count)]


async def publish(client: HedwigClient, topic: Topic, *properties: dict[str, bytes]) -> None:
    for each in properties:
        await client.publish(topic, Message(b"", properties=each))


async def looked_at(subscription: Subscription, last: int) -> None:
    """Wait until the filter has seen all messages, if it is in the client."""
    await until(lambda: subscription._filter is None or subscription._last_queued == last, "all messages have come")


async def next_without_filter(client: HedwigClient, topic: Topic) -> int:
    """Publish a message; return the position of the first one that comes without a filter."""
    async with client.subscribe(topic, ANN, filter="") as subscription:
        await client.publish(topic, b"end")
        return (await anext(subscription)).seq_id.local


@pytest.mark.parametrize("auto_consume", [True, False])
async def test_only_wanted_messages_come_and_all_count_as_consumed(
    filtering: HedwigClient, client: HedwigClient, topic: Topic, auto_consume: bool
) -> None:
    async with filtering.subscribe(topic, ANN, filter='lang = "de"', auto_consume=auto_consume) as subscription:
        await publish(client, topic, EN, DE, EN, EN, DE, NONE)
        wanted = await take(subscription, 2)
        assert [each.seq_id.local for each in wanted] == [2, 5]
        if not auto_consume:
            await subscription.consume(wanted[-1].seq_id)
        await looked_at(subscription, 6)
    assert await next_without_filter(client, topic) == 7


async def test_what_is_not_finished_comes_again(filtering: HedwigClient, client: HedwigClient, topic: Topic) -> None:
    async with filtering.subscribe(topic, ANN, filter="has lang", auto_consume=False) as subscription:
        await publish(client, topic, NONE, DE, NONE, EN, NONE)
        first, _ = await take(subscription, 2)
        await subscription.consume(first.seq_id)
    assert await next_without_filter(client, topic) in (3, 4)


async def test_unwanted_messages_fill_no_window_and_are_no_lag(
    filtering: HedwigClient, client: HedwigClient, topic: Topic
) -> None:
    window = SubscriptionPreferences(message_window_size=2)
    async with filtering.subscribe(topic, ANN, filter="has lang", preferences=window) as subscription:
        await publish(client, topic, *[NONE] * 25, DE, *[NONE] * 25)
        assert (await anext(subscription)).seq_id.local == 26
        waiting = asyncio.create_task(take(subscription, 1))  # So the message counts as finished.
        await looked_at(subscription, 51)
        await end_all([waiting])
    assert await next_without_filter(client, topic) == 52
    async with filtering.subscribe(topic, ANN, filter="has lang", preferences=window) as subscription:
        await publish(client, topic, *[NONE] * 25)
        await looked_at(subscription, 77)
    assert await next_without_filter(client, topic) == 78


async def test_a_filter_is_kept_changed_and_removed(client: HedwigClient, topic: Topic) -> None:
    await (await client.subscribe(topic, ANN, filter='lang = "de"')).close()
    await publish(client, topic, EN, DE)
    async with client.subscribe(topic, ANN) as kept:
        assert (await anext(kept)).seq_id.local == 2
        assert kept.preferences.options[FILTER_OPTION] == b'lang = "de"'
    await publish(client, topic, DE, EN)
    async with client.subscribe(topic, ANN, filter='lang = "en"') as changed:
        assert (await anext(changed)).seq_id.local == 4
    await publish(client, topic, NONE)
    async with client.subscribe(topic, ANN, filter="") as removed:
        assert (await anext(removed)).seq_id.local == 5
        assert removed.preferences.message_filter == ""


async def test_a_bound_counts_before_the_filter(client: HedwigClient, topic: Topic) -> None:
    bound = SubscriptionPreferences(message_bound=3)
    await (await client.subscribe(topic, ANN, filter="has lang", preferences=bound)).close()
    await publish(client, topic, DE, DE, NONE, DE, NONE)
    async with client.subscribe(topic, ANN) as subscription:
        assert (await anext(subscription)).seq_id.local == 4


async def test_a_wrong_filter_is_not_sent(client: HedwigClient, topic: Topic) -> None:
    with pytest.raises(InvalidArgumentError, match="a filter needs"):
        await client.subscribe(topic, ANN, filter="lang =")
    with pytest.raises(InvalidArgumentError, match="a filter needs"):
        client.share([topic], ANN, filter="lang =")
    raw = SubscriptionPreferences(message_filter=FILTER_NAME, options={FILTER_OPTION: b"lang ="})
    with pytest.raises((InvalidMessageFilterError, InvalidArgumentError), match="a filter needs"):
        await client.subscribe(topic, ANN, preferences=raw)


async def test_the_original_hub_has_its_client_filter(servers: RunningServers, topic: Topic) -> None:
    async with HedwigClient(servers.address("java-hedwig")) as client:
        async with client.subscribe(topic, ANN, filter='lang = "de"') as subscription:
            await publish(client, topic, EN, DE, EN)
            assert (await anext(subscription)).seq_id.local == 2
        async with client.subscribe(topic, ANN, filter='lang = "de"') as subscription:
            await publish(client, topic, DE)
            assert (await anext(subscription)).seq_id.local == 4


async def test_shares_filter(client: HedwigClient, topic: Topic) -> None:
    async with client.share([topic], ANN, filter="has lang") as share:
        await until(lambda: share.topics == [topic], "it is served")
        await publish(client, topic, NONE, DE)
        _, message = await anext(share)
        assert message.seq_id.local == 2


def test_a_blocking_client_filters(own_hub: HubAddress, topic: Topic) -> None:
    options = ClientOptions(hub=own_hub)
    expression = 'lang in ("de", "fr")'
    with BlockingClient(options) as client, client.subscribe(topic, ANN, filter=expression) as subscription:
        client.publish(topic, Message(b"", properties=EN))
        client.publish(topic, Message(b"", properties=DE))
        assert next(subscription).seq_id.local == 2
