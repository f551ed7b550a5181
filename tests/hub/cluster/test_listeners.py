"""Prove that a client keeps its identity when hubs redirect it, and that hubs send it nowhere else."""

from contextlib import AsyncExitStack

import pytest

from hedwig.access import Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import NotPermittedError
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.listener_options import ListenerOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import Topic
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both
from tests.hub.cluster.support.deployment import Deployment, liveness_of
from tests.hub.support.wire_client import WireClient

HUBS = 3
USERS = ("ann", "bob")
ACCESS = AccessOptions(mode="rules", anonymous="")
LISTENERS = {user: ListenerOptions(anonymous=user) for user in USERS}


def client_of(port: int) -> HedwigClient:
    return HedwigClient(ClientOptions(hub=HubAddress("127.0.0.1", port), answer_timeout_s=60.0))


@on_both
async def test_a_client_is_the_same_user_at_all_owners(deployment: Deployment) -> None:
    records = RuleRecords(deployment.store.named_records)
    for user in USERS:
        texts = (f"allow user:{user} publish,create {user}/*", f"allow user:{user} subscribe {user}/* as *")
        await records.replace(f"user:{user}", tuple(map(Rule.parse, texts)))
    hubs = [await deployment.start(access=ACCESS, listeners=LISTENERS) for _ in range(HUBS)]
    await until(lambda: all(len(liveness_of(hub).live) == HUBS for hub in hubs), "the hubs know each other")
    for user, other in (USERS, USERS[::-1]):
        topics = [Topic(f"{user}/{number}".encode()) for number in range(24)]
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client_of(hub.listeners.ports[user])) for hub in hubs]
            subscriptions = [
                await clients[number % HUBS].subscribe(topic, "reader") for number, topic in enumerate(topics)
            ]
            for client in clients:
                for topic in topics:
                    await client.publish(topic, b"m")
            for subscription in subscriptions:
                for _ in clients:
                    assert (await anext(subscription)).body == b"m"
            with pytest.raises(NotPermittedError, match=f"by user:{user}"):
                await clients[0].publish(f"{other}/1", b"m")
    assert all(len(hub.topics) > 0 for hub in hubs), "each hub is an owner"
    opened = {(hub.port, channel.listener) for hub in hubs for channel in hub.channels}
    assert "" not in {listener for _, listener in opened}


@on_both
async def test_an_owner_without_the_listener_is_not_named(deployment: Deployment) -> None:
    records = RuleRecords(deployment.store.named_records)
    await records.replace("*", (Rule.parse("allow * publish,create *"),))
    without = await deployment.start(access=AccessOptions(mode="rules", anonymous="local"))
    async with client_of(without.port) as client:
        await client.publish("t", b"m")
    hub = await deployment.start(access=ACCESS, listeners=LISTENERS)
    await until(lambda: len(liveness_of(hub).live) == 2, "the hub knows the other")
    async with await WireClient.connect(hub.listeners.ports["ann"]) as raw:
        answer = await raw.request(b"t", Publish(Message(b"m")))
        assert answer.status is StatusCode.SERVICE_DOWN
        assert "is not known to have a listener 'ann'" in (answer.text or "")
    assert not without.channels, "the client was sent nowhere"
