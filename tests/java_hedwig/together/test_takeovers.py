"""Prove that each hub takes topics over from the other, however that one ends, and loses no acknowledged message.

A topic goes from one hub to the other and back while clients publish through both, and subscribers listen in the Java
client. At the end each hub in turn delivers all of it, and its ledgers are like those of the original.
"""

from collections.abc import Collection
from contextlib import ExitStack
from random import Random
from typing import Final

import pytest

from tests.java_client.support.client import JavaSubscription
from tests.java_hedwig.support.hub_client import HubClient
from tests.java_hedwig.together.conftest import ConnectJava
from tests.java_hedwig.together.support.deployment import Deployment
from tests.java_hedwig.together.support.ledgers import check_ledgers
from tests.java_hedwig.together.support.members import Member
from tests.java_hedwig.together.support.traffic import Traffic

__all__: list[str] = []

FAULTS: Final = ("stop", "kill", "pause")
MORE: Final = 20
"""The number of publishes acknowledged before the next step: several ledgers."""
LATE: Final = 10


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(("kill",), id="killed"),
        pytest.param(FAULTS, id="however it ends", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
    ],
)
def test_topic_goes_from_one_to_the_other_and_back(
    deployment: Deployment, connect_java: ConnectJava, topic: bytes, faults: tuple[str, ...]
) -> None:
    _go_round(deployment, connect_java, [topic], [fault for fault in faults for _ in deployment.members])


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2])
def test_topics_go_to_and_fro(deployment: Deployment, connect_java: ConnectJava, topic: bytes, seed: int) -> None:
    topics = [b"%s-%d" % (topic, number) for number in range(4)]
    _go_round(deployment, connect_java, topics, Random(seed).choices(FAULTS, k=12))


def _go_round(deployment: Deployment, connect_java: ConnectJava, topics: list[bytes], faults: list[str]) -> None:
    owner: Member = deployment.ours
    readers = {member.name: f"reader-{member.name}".encode() for member in deployment.members}
    for topic in topics:
        deployment.give(topic, owner)
        _subscribe(owner, topic, readers.values())
    java = connect_java(deployment.original)
    listeners = [java.listen(topic, b"listener") for topic in topics]
    traffics = [Traffic(topic, deployment.members) for topic in topics]
    with ExitStack() as stack:
        for traffic in traffics:
            stack.enter_context(traffic)
        for number, fault in enumerate(faults):
            _wait_for(traffics, f"by {owner.name}")
            if fault == "pause":
                _pause(deployment, traffics, owner, readers.values(), b"%s-silent-%d" % (topics[0], number))
            elif fault == "kill":
                owner.kill()
            else:
                owner.stop()
            _wait_for(traffics, f"after the {fault} of {owner.name}")
            owner = deployment.other(owner)
            assert {deployment.owner(topic) for topic in topics} == {deployment.registered(owner)}
            deployment.restore()
        _wait_for(traffics, f"by {owner.name}")
    for listener, traffic in zip(listeners, traffics, strict=True):
        _check_listener(listener, traffic)
        # An open listener would cause a takeover of the topic while the test looks at the ledgers.
        listener.close()
    for member in (owner, deployment.other(owner)):
        deployment.other(member).stop()
        deployment.wait_unregistered(deployment.other(member))
        for traffic in traffics:
            traffic.check_delivered(_read_all(member, traffic, readers[member.name]))
        deployment.restore()
    for traffic in traffics:
        deployment.serving(traffic.topic)
        check_ledgers(deployment, traffic)


def _wait_for(traffics: list[Traffic], what: str) -> None:
    for traffic in traffics:
        traffic.wait_for(MORE, what)


def _pause(
    deployment: Deployment, traffics: list[Traffic], owner: Member, readers: Collection[bytes], silent: bytes
) -> None:
    """Freeze `owner` until the other hub has its topics, then resume it: none of its late writes takes effect.

    This holds for published topics, and for an unpublished one, which has no ledger if our hub owns it.
    """
    incarnation = deployment.registered(owner)
    assert incarnation is not None
    topics = [*(traffic.topic for traffic in traffics), silent]
    deployment.give(silent, owner)
    _subscribe(owner, silent, [b"reader"])
    with HubClient(owner.port) as late, HubClient(deployment.other(owner).port) as now:
        owner.pause()
        for topic in topics:
            late.send_publishes(topic, [b"late %d" % number for number in range(LATE)])
        for traffic in traffics:
            for reader in readers:
                late.consume(traffic.topic, reader, MORE)
        deployment.wait_gone(incarnation)
        _wait_for(traffics, f"after {owner.name} was paused")
        assert now.publish(silent, b"first") == 1
        before = [deployment.ranges(topic).ranges for topic in topics]
        owner.resume()
        # The hub refuses them, or it ends.
        assert not late.published(LATE * len(topics))
        deployment.wait_over(owner, incarnation)
        assert now.publish(silent, b"second") == 2
        for topic, ranges in zip(topics, before, strict=True):
            assert deployment.ranges(topic).ranges[: len(ranges) - 1] == ranges[:-1]
        now.subscribe(silent, b"reader")
        assert now.deliveries(2) == [(1, b"first"), (2, b"second")]


def _subscribe(owner: Member, topic: bytes, subscribers: Collection[bytes]) -> None:
    """Create subscriptions, and leave them closed."""
    with HubClient(owner.port) as client:
        for subscriber in subscribers:
            client.subscribe(topic, subscriber)
            client.close_subscription(topic, subscriber)


def _read_all(owner: Member, traffic: Traffic, reader: bytes) -> list[tuple[int, bytes]]:
    with HubClient(owner.port) as client:
        client.subscribe(traffic.topic, reader)
        return client.deliveries(max(traffic.acknowledged))


def _check_listener(listener: JavaSubscription, traffic: Traffic) -> None:
    """Fail unless it got everything in order; a takeover may repeat messages."""
    received: dict[int, bytes] = {}
    while len(received) < max(traffic.acknowledged):
        [message] = listener.take(1)
        assert message.local <= len(received) + 1, f"a gap: {message.local} after {len(received)}"
        assert received.setdefault(message.local, message.body) == message.body
    traffic.check_delivered(sorted(received.items()))
