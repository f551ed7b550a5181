"""Prove that both hubs redirect clients to each other, whichever hub and whichever library is used."""

import itertools
from functools import partial
from typing import Final

import pytest

from hedwig.model import SubscriberId, Topic
from tests.java_hedwig.support.hub_client import HubClient, RefusedByHubError
from tests.java_hedwig.support.stack import eventually
from tests.java_hedwig.together.conftest import ConnectJava
from tests.java_hedwig.together.support.deployment import Deployment
from tests.java_hedwig.together.support.members import Member, connect_ours

__all__: list[str] = []

S: Final = SubscriberId(b"s")
UNOWNED: Final = 24
"""Enough topics to find hubs that choose by chance and send a client back and forth."""


@pytest.fixture(params=["ours", "original"])
def owner(request: pytest.FixtureRequest, deployment: Deployment) -> Member:
    """The hub that owns the topic."""
    return next(member for member in deployment.members if member.name == request.param)


def test_each_names_the_other_as_the_owner(deployment: Deployment, owner: Member, topic: bytes) -> None:
    deployment.give(topic, owner)
    address = deployment.address(owner)
    with HubClient(deployment.other(owner).port) as client:
        for ask in (
            lambda: client.publish(topic, b"m"),
            lambda: client.subscribe(topic, S),
            lambda: client.unsubscribe(topic, S),
            lambda: client.close_subscription(topic, S),
        ):
            with pytest.raises(RefusedByHubError, match=f"^NOT_RESPONSIBLE_FOR_TOPIC: {address}$"):
                ask()
    assert deployment.owner(topic) == deployment.registered(owner)


def test_our_client_and_the_java_client_are_served_through_either_hub(
    deployment: Deployment, connect_java: ConnectJava, owner: Member, topic: bytes
) -> None:
    """Publish, subscribe, deliver and consume, all through the hub that does not own the topic."""
    deployment.give(topic, owner)
    other = deployment.other(owner)
    java = connect_java(other)
    with connect_ours(other) as ours:
        by_java = java.listen(topic, b"by-java")
        by_ours = ours.subscribe(Topic(topic), SubscriberId(b"by-ours"), auto_consume=False)
        for number in range(1, 11):
            body = b"m%d" % number
            sent = java.publish(topic, body) if number % 2 else ours.publish(Topic(topic), body).local
            assert sent == number
        assert [(message.local, message.body) for message in by_java.take(10)] == [
            (number, b"m%d" % number) for number in range(1, 11)
        ]
        for number in range(1, 11):
            message = by_ours.receive(20)
            assert message is not None
            assert message.seq_id is not None
            assert (message.seq_id.local, message.body) == (number, b"m%d" % number)
            by_ours.consume(message.seq_id)
        by_java.close()
        by_ours.close()
    for subscriber in ("by-java", "by-ours"):
        eventually("it has consumed all", partial(deployment.has_consumed, topic, subscriber, 10))
    assert deployment.owner(topic) == deployment.registered(owner)


def test_unowned_topics_are_served_wherever_a_client_begins(
    deployment: Deployment, connect_java: ConnectJava, topic: bytes
) -> None:
    """No hub sends a client of either library back to where it was. The Java client would give up."""
    clients = [connect_java(member) for member in deployment.members]
    served = set()
    for number in range(UNOWNED):
        name = b"%s-%d" % (topic, number)
        if number % 3:
            assert clients[number % 2].publish(name, b"m") == 1
        else:
            with connect_ours(deployment.members[number % 2]) as client:
                assert client.publish(Topic(name), b"m").local == 1
        owner = deployment.owner(name)
        assert owner is not None
        served.add(owner.address)
    assert served == {deployment.address(member) for member in deployment.members}


def test_consume_pointers_and_messages_go_with_a_topic_that_is_released(
    deployment: Deployment, connect_java: ConnectJava, topic: bytes
) -> None:
    """Our hub releases it. The other delivers our messages after the stored pointer, and continues the ids."""
    deployment.give(topic, deployment.ours)
    java = connect_java(deployment.original)
    with connect_ours(deployment.ours) as ours:
        reader = java.subscribe(topic, b"reader")
        for number in range(1, 11):
            assert ours.publish(Topic(topic), b"m%d" % number).local == number
        reader.start(hold=True)
        assert reader.ids(10) == list(range(1, 11))
        reader.consume(7)
        eventually("the pointer is stored", lambda: deployment.pointer(topic, "reader") == 7)
        reader.close()
        deployment.release(topic)
        deployment.give(topic, deployment.original)
        assert ours.publish(Topic(topic), b"m11").local == 11
        again = java.subscribe(topic, b"reader")
        again.start()
        assert [(message.local, message.body) for message in again.take(4)] == [
            (number, b"m%d" % number) for number in range(8, 12)
        ]


@pytest.mark.full
def test_topic_that_the_original_has_released_is_served_at_once(
    deployment: Deployment, connect_java: ConnectJava, topic: bytes
) -> None:
    """Our hub has just redirected others there. But the original, asked now, would choose our hub."""
    deployment.stop_both()
    deployment.ours.start()
    deployment.original.start(retention_secs=4)
    deployment.give(topic, deployment.original)
    with HubClient(deployment.ours.port) as client:
        client.should_claim = False
        with pytest.raises(RefusedByHubError, match=deployment.address(deployment.original)):
            client.publish(topic, b"m")
    java = connect_java(deployment.ours)
    more = itertools.count()

    def released() -> bool:
        # This gives the original more topics than our hub.
        deployment.give(b"%s-%d" % (topic, next(more)), deployment.original)
        return deployment.owner(topic) is None

    eventually("the original releases it", released)
    assert java.publish(topic, b"m") == 1
