"""Prove that all hubs of a cluster obey the same rules, and soon obey others, and together exceed no limit."""

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from hedwig.access import Limit, Pattern, Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import NotPermittedError, QuotaExceededError, SubscriptionClosedError
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata.access.count_records import Counted, CountKey, count_of
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish, RefusalKind
from tests.faults.support.waiting import TIMEOUT_S, until
from tests.hub.cluster.support.both import on_both, on_each_kind
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.cluster.support.traffic import Traffic

HUBS = 3
MOST = 30
TOPICS = [Topic(b"mine/%d" % number) for number in range(12)]
ANN = SubscriberId(b"ann")
RULES = (
    Rule.parse("allow user:local publish,create mine/*"),
    Rule.parse("allow user:local subscribe mine/* as ann"),
)


@on_both
async def test_rights_are_lost_at_all_hubs(deployment: Deployment) -> None:
    records = RuleRecords(deployment.store.named_records)
    await records.change("user:local", lambda _: RULES)
    access = AccessOptions(mode="rules", refresh_s=0.5)
    hubs = [await deployment.start(access=access) for _ in range(HUBS)]
    await until(lambda: all(len(liveness_of(hub).live) == HUBS for hub in hubs), "the hubs know each other")
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hub.port))))
            for hub in hubs
        ]
        subscriptions = [await clients[number % HUBS].subscribe(topic, ANN) for number, topic in enumerate(TOPICS)]
        for topic, subscription in zip(TOPICS, subscriptions, strict=True):
            await clients[0].publish(topic, b"m")
            async with asyncio.timeout(60):
                assert (await anext(subscription)).body == b"m"
        owners = [hub for hub in hubs if len(hub.topics)]
        assert len(owners) > 1, "several hubs have topics"
        before = [hub.access.book for hub in hubs if hub.access is not None]
        began = time.monotonic()
        await records.replace("user:local", ())
        await until(
            lambda: all(
                hub.access is not None and hub.access.book is not book for hub, book in zip(hubs, before, strict=True)
            ),
            "all hubs have read the rules",
        )
        for number, topic in enumerate(TOPICS):
            with pytest.raises(NotPermittedError):
                await clients[number % HUBS].publish(topic, b"m")
        async with asyncio.timeout(60):
            for subscription in subscriptions:
                with pytest.raises(SubscriptionClosedError):
                    await anext(subscription)
        print(f"rights were lost within {time.monotonic() - began:.2f} s")
        for topic in TOPICS:
            with pytest.raises(NotPermittedError):
                await clients[0].subscribe(topic, ANN)
        await records.replace("user:local", RULES)
        async with asyncio.timeout(60):
            while True:
                try:
                    await clients[1].publish(TOPICS[0], b"again")
                except NotPermittedError:
                    await asyncio.sleep(0.1)
                else:
                    break


async def test_an_open_cluster_is_closed_without_an_outage(deployment: Deployment, tmp_path: Path) -> None:
    """As docs/how-to/access.md says: hubs ask the rules, then obey them, and are restarted one after the other."""
    await RuleRecords(deployment.store.named_records).replace("user:local", RULES)
    hubs = [deployment.apart() for _ in range(HUBS)]
    for hub in hubs:
        await asyncio.to_thread(hub.start)
    audit = tmp_path / "audit.jsonl"
    async with (
        HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", hubs[1].port))) as stranger,
        Traffic(hubs[0].address, TOPICS) as traffic,
    ):
        for mode in ("audit", "rules"):
            for number, hub in enumerate(hubs):
                goal = traffic.published + 100
                await asyncio.to_thread(hub.restart, f"access.mode={mode}", f"access.audit_file={audit}-{number}")
                await until(partial(_has_published, traffic, goal), "messages are published")
            if mode == "audit":
                await stranger.publish("others/1", b"it is done, and told")

        def is_told() -> bool:
            return any('"topic": "others/1"' in Path(f"{audit}-{number}").read_text() for number in range(HUBS))

        await until(is_told, "it is in the log of refusals")
        with pytest.raises(NotPermittedError):
            await stranger.publish("others/1", b"now it is refused")
        await traffic.settle()


def _has_published(traffic: Traffic, goal: int) -> bool:
    return traffic.published > goal


@on_both
async def test_no_more_topics_are_made_at_all_hubs_than_a_limit_says(deployment: Deployment) -> None:
    records = RuleRecords(deployment.store.named_records)
    await records.change("user:local", lambda _: (*RULES, Limit.parse(f"limit user:local topics_max={MOST} mine/*")))
    access = AccessOptions(mode="rules", refresh_s=0.5)
    hubs = [await deployment.start(access=access) for _ in range(HUBS)]
    await until(lambda: all(len(liveness_of(hub).live) == HUBS for hub in hubs), "the hubs know each other")

    async def make(client: HedwigClient, topic: Topic) -> bool:
        try:
            async with client.subscribe(topic, ANN):
                return True
        except QuotaExceededError:  # At once, where a publish would be tried again.
            return False

    async with AsyncExitStack() as stack:
        options = [ClientOptions(hub=HubAddress("127.0.0.1", hub.port), answer_timeout_s=60.0) for hub in hubs]
        clients = [await stack.enter_async_context(HedwigClient(each)) for each in options]
        topics = [Topic(b"mine/%d" % number) for number in range(3 * MOST)]
        made = await asyncio.gather(
            *(make(clients[number % HUBS], topic) for number, topic in enumerate(topics)),
        )
        key = CountKey(Counted.TOPICS, Pattern.parse("mine/*"))
        assert sum(made) <= await count_of(deployment.store, key) <= MOST
        # A hub may hold one that it has not made, for itself.
        assert sum(made) >= MOST - HUBS
        assert sum(len(hub.topics) > 0 for hub in hubs) > 1, "several hubs have made topics"


@on_each_kind
async def test_no_backlog_exceeds_its_limit_though_topics_change_hubs(deployment: Deployment) -> None:
    records = RuleRecords(deployment.store.named_records)
    limit = Limit.parse("limit user:local backlog_bytes_max=16KiB mine/*")
    await records.change("user:local", lambda _: (*RULES, limit))
    apart = deployment.apart("access.mode=rules", "access.refresh_s=0.5")
    await asyncio.to_thread(apart.start)
    staying, leaving = [
        await deployment.start(access=AccessOptions(mode="rules", refresh_s=0.5)) for _ in range(HUBS - 1)
    ]
    await until(lambda: len(liveness_of(staying).live) == HUBS, "the hubs know each other")
    clients = {hub.port: await deployment.connect(hub) for hub in (staying, leaving, apart)}

    async def taken(topic: Topic) -> int:
        """Publish to a topic, at whichever hub has it, until there is no room; return the last id that was given."""
        last = refused = 0
        port = staying.port
        async with asyncio.timeout(TIMEOUT_S):
            while refused < 2:
                answer = await clients[port].request(topic, Publish(Message(bytes(2000))))
                if answer.published is not None:
                    last, refused = answer.published.local, 0
                elif answer.status is StatusCode.NOT_RESPONSIBLE_FOR_TOPIC:
                    port = HubInfo.at(answer.text or "").port
                else:
                    # The first refusal may come of a bound that the hub has not measured again.
                    refused += answer.refusal is RefusalKind.QUOTA_EXCEEDED
                    await asyncio.sleep(1.2 if answer.refusal is RefusalKind.QUOTA_EXCEEDED else 0.1)
        return last

    async with HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", staying.port))) as client:
        for topic in TOPICS:
            await (await client.subscribe(topic, ANN)).close()
        assert await asyncio.gather(*map(taken, TOPICS)) == [7] * len(TOPICS)
        assert len(staying.topics) < len(TOPICS), "several hubs have topics"
        await asyncio.to_thread(apart.kill)
        await leaving.close()
        await until(lambda: len(liveness_of(staying).live) == 1, "one hub is left")
        assert await asyncio.gather(*map(taken, TOPICS)) == [0] * len(TOPICS)
        for topic in TOPICS:
            async with await client.subscribe(topic, ANN) as subscription:
                assert [len((await anext(subscription)).body) for _ in range(7)] == [2000] * 7
        assert await asyncio.gather(*map(taken, TOPICS)) == [14] * len(TOPICS)
