"""Prove over the wire that a hub asks the rules about each request, and that a refused one leaves nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import pytest

from hedwig.access import Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import NotPermittedError, SubscriptionClosedError
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import (
    Action,
    Authenticate,
    CloseSubscription,
    Consume,
    CreateOrAttach,
    Malformed,
    Message,
    Ping,
    Publish,
    RefusalKind,
    Subscribe,
    Unsubscribe,
)
from tests.faults.support.waiting import until
from tests.hub.conftest import Connect, StartHub

T, ANN, BOB = Topic(b"mine/1"), SubscriberId(b"ann"), SubscriberId(b"bob")
THEIRS = Topic(b"theirs/1")
REFRESH_S = 0.05

RULES = (
    "allow user:local publish,create mine/*",
    "allow user:local publish theirs/*",
    "allow user:local subscribe,unsubscribe mine/* as ann",
)

ALLOWED: list[tuple[Topic, Action]] = [
    (T, Publish(Message(b"m"))),
    (T, Subscribe(subscriber=ANN, mode=CreateOrAttach.CREATE_OR_ATTACH)),
    (T, Consume(subscriber=ANN, seq_id=MessageSeqId(1))),
    (T, CloseSubscription(ANN)),
    (T, Unsubscribe(ANN)),
]
REFUSED: list[tuple[Topic, Action]] = [
    (Topic(b"other"), Publish(Message(b"m"))),
    (T, Subscribe(subscriber=BOB, mode=CreateOrAttach.CREATE_OR_ATTACH)),
    (T, Subscribe(subscriber=BOB, mode=CreateOrAttach.ATTACH, force_attach=True)),
    (THEIRS, Subscribe(subscriber=ANN, mode=CreateOrAttach.CREATE)),
    (T, Consume(subscriber=BOB, seq_id=MessageSeqId(1))),
    (T, CloseSubscription(BOB)),
    (T, Unsubscribe(BOB)),
]
NEVER_ASKED = {Authenticate, Ping, Malformed}


@dataclass
class Deployment:
    """A hub, and its rules."""

    hub: Hub
    records: RuleRecords

    async def allow(self, *texts: str) -> None:
        """Replace all rules of user:local; return once the hub has read them."""
        rules = tuple(Rule.parse(text) for text in texts)
        await self.records.change("user:local", lambda _: rules)
        assert self.hub.access is not None
        before = self.hub.access.book
        await until(
            lambda: self.hub.access is not None and self.hub.access.book is not before, "the hub reads the rules"
        )


@pytest.fixture
async def start(start_hub: StartHub) -> Callable[..., Awaitable[Deployment]]:
    async def started(*rules: str, mode: str = "rules", **options: Any) -> Deployment:
        access = AccessOptions(mode=mode, refresh_s=REFRESH_S, **options)
        hub = await start_hub(access=access)
        made = Deployment(hub, RuleRecords(hub.metadata.named_records))
        if rules:
            await made.allow(*rules)
        return made

    return started


Start = Callable[..., Awaitable[Deployment]]


def test_each_kind_of_request_has_a_row() -> None:
    """A new kind must be asked about too, or be named here."""
    kinds = set(get_args(Action))
    assert {type(action) for _, action in ALLOWED} == {type(action) for _, action in REFUSED} == kinds - NEVER_ASKED


async def test_what_the_rules_allow_is_done(start: Start, connect: Connect) -> None:
    client = await connect((await start(*RULES)).hub)
    for topic, action in ALLOWED:
        if isinstance(action, Consume):
            client.send(topic, action)  # It has no answer.
        else:
            assert (await client.request(topic, action)).status is StatusCode.SUCCESS, action


@pytest.mark.parametrize("rules", [RULES, ()], ids=["some rules", "no rules"])
async def test_what_no_rule_allows_leaves_nothing(start: Start, connect: Connect, rules: tuple[str, ...]) -> None:
    deployment = await start(*rules)
    client = await connect(deployment.hub)
    refused = REFUSED if rules else REFUSED + ALLOWED
    for topic, action in refused:
        answer = await client.request(topic, action)
        assert (answer.status, answer.refusal) == (StatusCode.MALFORMED_REQUEST, RefusalKind.NOT_PERMITTED), action
        assert answer.text is not None
        assert "not permitted: " in answer.text
        assert "by user:local" in answer.text
    assert len(deployment.hub.topics) == 0
    assert not any([await deployment.hub.metadata.has_topic(topic) for topic, _ in refused])
    assert deployment.hub.counters()["acquired_topics"] == 0


async def test_ten_thousand_refused_requests_at_random_change_nothing(start: Start, connect: Connect) -> None:
    deployment = await start(*RULES, "allow user:local subscribe,unsubscribe mine/* as *")
    client = await connect(deployment.hub)
    names = [Topic(b"mine/%d" % number) for number in range(5)]
    for name in names:
        await client.publish(name, b"m")
        assert (await client.request(name, Subscribe(subscriber=ANN))).status is StatusCode.SUCCESS
    await deployment.allow("allow user:local view *")
    client = await connect(deployment.hub)  # The hub has closed the former one, which served subscriptions.
    await until(lambda: not any(topic.has_attached for topic in deployment.hub.topics), "they are detached")
    before = await dump(deployment.hub)
    random = Random(26)
    sent = []
    for _ in range(10_000):
        topic = random.choice((*names, Topic(random.randbytes(8))))
        subscriber = random.choice((ANN, BOB, SubscriberId(random.randbytes(3))))
        action: Action = random.choice(
            (
                Publish(Message(b"m")),
                Subscribe(
                    subscriber=subscriber,
                    mode=random.choice(list(CreateOrAttach)),
                    force_attach=random.random() < 0.5,
                    standby=random.random() < 0.5,
                ),
                Consume(subscriber=subscriber, seq_id=MessageSeqId(random.randrange(9))),
                CloseSubscription(subscriber),
                Unsubscribe(subscriber),
            )
        )
        sent.append(client.send(topic, action))
        if len(sent) % 500 == 0:
            for each in sent:
                assert (await client.answer(each)).refusal is RefusalKind.NOT_PERMITTED
            sent.clear()
    assert await dump(deployment.hub) == before


async def dump(hub: Hub) -> object:
    """Return all records of the store, what the hub owns, and the last message of each topic."""
    records = [(item.kind.name, item.key, item.read()) async for page in hub.metadata.scan() for item in page]
    return records, {topic.name: topic.log.last_id for topic in hub.topics}


async def test_a_topic_that_may_not_be_made_is_not(start: Start, connect: Connect) -> None:
    deployment = await start(*RULES)
    client = await connect(deployment.hub)
    assert (await client.request(THEIRS, Publish(Message(b"m")))).status is StatusCode.NO_SUCH_TOPIC
    assert not await deployment.hub.metadata.has_topic(THEIRS)
    await deployment.allow(*RULES, "allow user:local create theirs/*")
    assert await client.publish(THEIRS, b"m") == 1
    await deployment.allow(*RULES)
    assert await client.publish(THEIRS, b"m") == 2


async def test_in_audit_mode_all_is_done_and_told(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = await start(mode="audit")
    client = await connect(deployment.hub)
    with caplog.at_level("INFO", logger="hedwig.hub.access"):
        assert await client.publish(T, b"m") == 1
    assert "the rules would refuse it: not permitted: publish to 'mine/1' by user:local" in caplog.text
    assert deployment.hub.access is not None
    assert deployment.hub.access.refused == 1
    assert deployment.hub.counters()["unpermitted_requests"] == 1
    assert (await client.request(T, Subscribe(subscriber=ANN))).status is StatusCode.SUCCESS
    assert deployment.hub.access.refused == 2, "one for each request"


async def test_revoked_rights_end_what_is_open(start: Start) -> None:
    deployment = await start(*RULES)
    options = ClientOptions(hub=HubAddress("127.0.0.1", deployment.hub.port))
    async with HedwigClient(options) as client:
        subscription = await client.subscribe(T, ANN)
        await client.publish(T, b"m")
        assert (await anext(subscription)).body == b"m"
        await deployment.allow("allow user:local view *")
        with pytest.raises(NotPermittedError, match="not permitted: publish to 'mine/1' by user:local"):
            await client.publish(T, b"m")
        async with asyncio.timeout(30):
            with pytest.raises(SubscriptionClosedError, match="is not permitted any more"):
                await anext(subscription)
        with pytest.raises(NotPermittedError, match="as 'ann'"):
            await client.subscribe(T, ANN)


async def test_once_the_rules_are_too_old_nothing_is_permitted(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = await start(*RULES, stale_max_s=0.5)
    client = await connect(deployment.hub)
    assert await client.publish(T, b"m") == 1

    async def away(_: RuleRecords) -> int:
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(RuleRecords, "changes", away)
        access = deployment.hub.access
        assert access is not None
        await until(lambda: (access.age_s or 0) > 0.6, "the rules are too old")
        answer = await client.request(T, Publish(Message(b"m")))
        assert answer.status is StatusCode.SERVICE_DOWN
        assert answer.text is not None
        assert "rules of access control cannot be read" in answer.text
        assert access.why_unknown is not None
    await until(lambda: (access.age_s or 0) < 0.5, "the rules are read again")
    assert await client.publish(T, b"m") == 2


async def test_nobody_may_nothing(start: Start, connect: Connect, start_hub: StartHub) -> None:
    hub = await start_hub(access=AccessOptions(mode="rules", anonymous="", refresh_s=REFRESH_S))
    await RuleRecords(hub.metadata.named_records).change("*", lambda _: (Rule.parse("allow * publish,create *"),))
    answer = await (await connect(hub)).request(T, Publish(Message(b"m")))
    assert answer.refusal is RefusalKind.NOT_PERMITTED
    assert answer.text is not None
    assert answer.text.endswith("by nobody")
