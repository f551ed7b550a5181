"""Prove that each hub takes topics over from the other, however that ends, and no acknowledged message is lost.

The topic goes from one to the other and back while it is published to through both, and a subscriber in the Java client
listens. At the end each hub in turn delivers all of it.
"""

from typing import Final

import pytest

from tests.java_client.client import JavaSubscription
from tests.java_hedwig.hub_client import HubClient
from tests.java_hedwig.together.conftest import ConnectJava
from tests.java_hedwig.together.deployment import Deployment
from tests.java_hedwig.together.ledgers import check_ledgers
from tests.java_hedwig.together.members import Member
from tests.java_hedwig.together.traffic import Traffic

__all__: list[str] = []

LATE: Final = 10


@pytest.mark.parametrize("fault", ["stop", "kill", "pause"])
@pytest.mark.parametrize("turns", [2, pytest.param(12, marks=[pytest.mark.full, pytest.mark.timeout(900)])])
def test_topic_goes_from_one_to_the_other_and_back(
    deployment: Deployment, connect_java: ConnectJava, fault: str, turns: int, topic: bytes
) -> None:
    owner = deployment.members[turns % 2]
    deployment.give(topic, owner)
    readers = {member.name: f"reader-{member.name}".encode() for member in deployment.members}
    with HubClient(owner.port) as raw:
        for reader in readers.values():
            raw.subscribe(topic, reader)
            raw.close_subscription(topic, reader)
    listener = connect_java(deployment.other(owner)).listen(topic, b"listener")
    with Traffic(topic, deployment.members) as traffic:
        for _ in range(turns):
            traffic.wait_for(20, f"by {owner.name}")
            _take_over(deployment, traffic, owner, fault)
            owner = deployment.other(owner)
            assert deployment.owner(topic) == deployment.registered(owner)
            deployment.restore()
        traffic.wait_for(20, f"by {owner.name}")
    _check_listener(listener, traffic)
    # Or it would let the topic be taken over while the ledgers are looked at.
    listener.close()
    for _ in deployment.members:
        owner = deployment.serving(topic)
        traffic.check_delivered(_read_all(owner, topic, readers.pop(owner.name), max(traffic.acknowledged)))
        owner.stop()
        deployment.restore()
    deployment.serving(topic)
    check_ledgers(deployment, topic, traffic)


def _take_over(deployment: Deployment, traffic: Traffic, owner: Member, fault: str) -> None:
    """End the rule of `owner`, and return once the other hub has acknowledged publishes."""
    incarnation = deployment.registered(owner)
    assert incarnation is not None
    if fault == "stop":
        owner.stop()
    elif fault == "kill":
        owner.kill()
    else:
        with HubClient(owner.port) as late:
            owner.pause()
            late.send_publishes(traffic.topic, [b"late %d" % number for number in range(LATE)])
            deployment.wait_gone(incarnation)
            traffic.wait_for(20, f"after {owner.name} was paused")
            before = deployment.ranges(traffic.topic)
            owner.resume()
            # It either refuses them or is gone.
            assert not late.published(LATE)
            deployment.wait_over(owner, incarnation)
            after = deployment.ranges(traffic.topic)
            assert list(after.ranges)[: len(before.ranges) - 1] == list(before.ranges)[:-1]
    traffic.wait_for(20, f"after the {fault} of {owner.name}")


def _read_all(owner: Member, topic: bytes, reader: bytes, last: int) -> list[tuple[int, bytes]]:
    with HubClient(owner.port) as client:
        client.subscribe(topic, reader)
        return client.deliveries(last)


def _check_listener(listener: JavaSubscription, traffic: Traffic) -> None:
    """Fail unless it got everything in order; what it got may come again after a takeover."""
    found: dict[int, bytes] = {}
    while len(found) < max(traffic.acknowledged):
        [message] = listener.take(1)
        assert message.local <= len(found) + 1, f"a gap: {message.local} after {len(found)}"
        assert found.setdefault(message.local, message.body) == message.body
    traffic.check_delivered(sorted(found.items()))
