"""Prove the limits of hubs of both kinds together (docs/reference/java-compatibility.md), and what happens there."""

import asyncio
from typing import Final

import pytest

from hedwig.metadata import open_metadata
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionData, SubscriptionState, Topic
from hedwig.wire import pubsub_pb2 as pb
from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.together.support.deployment import Deployment

__all__: list[str] = []

S: Final = SubscriberId(b"late")


def test_topic_that_the_original_cannot_store_stays_with_the_hub_of_ours_that_is_asked(
    deployment: Deployment, topic: bytes
) -> None:
    """This holds however loaded our hub is: the original would look for the topic elsewhere, or not at all."""
    with HubClient(deployment.ours.port) as client:
        client.should_claim = False
        for number in range(5):
            for name in (b"%s-\xff-%d" % (topic, number), b"%s//%d" % (topic, number), b"%s/hub/%d" % (topic, number)):
                assert client.publish(name, b"m") == 1


def test_subscription_made_behind_the_back_of_the_original_cannot_be_opened_until_the_topic_moves(
    deployment: Deployment, topic: bytes
) -> None:
    """The original reads subscriptions once. A deposed hub of ours may have created one late in the same way."""
    deployment.give(topic, deployment.original)
    with HubClient(deployment.original.port) as client:
        assert client.publish(topic, b"m1") == 1
        asyncio.run(_subscribe(deployment.java.metadata_url, Topic(topic)))
        with pytest.raises(RefusedByHubError, match=r"^SUBSCRIPTION_STATE_EXISTS: "):
            client.subscribe(topic, S)
    deployment.original.stop()
    assert deployment.serving(topic) is deployment.ours
    with HubClient(deployment.ours.port) as client:
        client.subscribe(topic, S)
        assert client.deliveries(1) == [(1, b"m1")]


def test_subscriber_id_with_a_slash_is_another_one_to_the_original(deployment: Deployment, topic: bytes) -> None:
    """Our hub does not find a subscription made there, but finds the topic's other subscriptions and messages."""
    deployment.give(topic, deployment.original)
    with HubClient(deployment.original.port) as client:
        client.subscribe(topic, b"plain")
        client.subscribe(topic, b"with/slash")
        assert client.publish(topic, b"m1") == 1
    deployment.original.stop()
    assert deployment.serving(topic) is deployment.ours
    with HubClient(deployment.ours.port) as client:
        client.subscribe(topic, b"plain", mode=pb.SubscribeRequest.ATTACH)
        assert client.deliveries(1) == [(1, b"m1")]
        with pytest.raises(RefusedByHubError, match=r"^CLIENT_NOT_SUBSCRIBED: "):
            client.subscribe(topic, b"with/slash", mode=pb.SubscribeRequest.ATTACH)


async def _subscribe(url: str, topic: Topic) -> None:
    async with await open_metadata(url) as store:
        state = SubscriptionState(MessageSeqId(0))
        await store.subscriptions.create(topic, S, SubscriptionData(state=state))
