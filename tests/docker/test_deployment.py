"""Prove that the compose file makes a cluster for clients outside and inside, and that it outlives a killed hub."""

import json
import uuid
from collections.abc import Iterator

import pytest

from hedwig.client import BlockingClient, BlockingSubscription, ClientOptions, HubAddress
from hedwig.errors import HedwigError
from hedwig.model import SubscriberId, Topic
from tests.docker.support.deployment import HUBS, Deployment, wait_until

# The first start builds the images.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(3600)]

READER = SubscriberId(b"reader")


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment.started() as started:
        yield started


def _client(deployment: Deployment, hub: str) -> BlockingClient:
    return BlockingClient(ClientOptions(hub=HubAddress.parse(deployment.addresses[hub])))


def _topics(count: int) -> list[Topic]:
    run = uuid.uuid4().hex
    return [Topic(f"docker/{run}/{number}".encode()) for number in range(count)]


def _publish(client: BlockingClient, topic: Topic, body: bytes) -> None:
    """Publish until it is acknowledged: a hub that has just died still owns topics until its session ends."""

    def is_done() -> bool:
        try:
            client.publish(topic, body)
        except HedwigError:
            return False
        return True

    wait_until(f"{body!r} published to {topic!r}", is_done, 120)


def _received(subscription: BlockingSubscription, last: bytes) -> list[bytes]:
    """Return the bodies received up to `last`, each once."""
    bodies: dict[bytes, None] = {}

    def has_come() -> bool:
        message = subscription.receive(1)
        if message is not None:
            bodies[message.body] = None
        return last in bodies

    wait_until(f"{last!r} on {subscription.topic!r}, there are {list(bodies)}", has_come, 120)
    return list(bodies)


def test_client_outside_reaches_every_owner_through_any_hub(deployment: Deployment) -> None:
    for hub in HUBS:
        topics = _topics(20)
        before = {each: deployment.load(each)["topics"] for each in HUBS}
        with _client(deployment, hub) as client:
            for topic in topics:
                with client.subscribe(topic, READER) as subscription:
                    client.publish(topic, b"hello")
                    assert _received(subscription, b"hello") == [b"hello"]
        gained = [each for each in HUBS if deployment.load(each)["topics"] > before[each]]
        assert len(gained) > 1, f"only {gained} got topics, so nobody was redirected"


def test_client_inside_reaches_every_owner_through_any_hub(deployment: Deployment) -> None:
    for hub in HUBS:
        # The name of the service, and the port, which is the same inside and outside.
        address = f"{hub}:{deployment.addresses[hub].rpartition(':')[2]}"
        for topic in _topics(6):
            text = ["hedwig-admin", "-o", "json", "publish", "--hub", address, topic.decode(), "hello"]
            assert json.loads(deployment.run("hub1", text))["id"] == 1


def test_topics_of_a_killed_hub_go_on_elsewhere_and_it_comes_back(deployment: Deployment) -> None:
    topics = _topics(30)
    with _client(deployment, "hub2") as client:
        subscriptions = {topic: client.subscribe(topic, READER) for topic in topics}
        for topic in topics:
            client.publish(topic, b"before")
        assert deployment.load("hub1")["topics"] > 0, "hub1 owns nothing, so its end would prove nothing"
        deployment.kill("hub1")
        for topic in topics:
            _publish(client, topic, b"after")
        deployment.start()
        for topic in topics:
            _publish(client, topic, b"at last")
        for subscription in subscriptions.values():
            assert _received(subscription, b"at last") == [b"before", b"after", b"at last"]
    with _client(deployment, "hub1") as client:
        for topic in topics:
            with client.subscribe(topic, READER) as subscription:
                client.publish(topic, b"through hub1")
                assert _received(subscription, b"through hub1")[-1] == b"through hub1"


def test_new_topics_are_published_to_while_a_bookie_is_away(deployment: Deployment) -> None:
    deployment.kill("bookie1")
    topics = _topics(10)
    with _client(deployment, "hub2") as client:
        for topic in topics:
            client.subscribe(topic, READER).close()
            _publish(client, topic, b"on two bookies")
        deployment.start()
        for topic in topics:
            _publish(client, topic, b"on three")
            with client.subscribe(topic, READER) as subscription:
                assert _received(subscription, b"on three") == [b"on two bookies", b"on three"]


def test_hub_that_is_stopped_closes_in_order(deployment: Deployment) -> None:
    assert deployment.stop("hub3") == 0
    with _client(deployment, "hub2") as client:
        for topic in _topics(10):
            client.publish(topic, b"two hubs are enough")
    deployment.start()
    with _client(deployment, "hub3") as client:
        for topic in _topics(10):
            client.publish(topic, b"and so are three")


def test_messages_outlive_the_end_of_all_servers(deployment: Deployment) -> None:
    topics = _topics(10)
    with _client(deployment, "hub1") as client:
        for topic in topics:
            client.subscribe(topic, READER).close()
            assert client.publish(topic, b"kept").local == 1
    for service in (
        "hub1",
        "hub2",
        "hub3",
        "bookie1",
        "bookie2",
        "bookie3",
        "hbase-region",
        "hbase-master",
        "zookeeper",
    ):
        deployment.kill(service)
    deployment.start()
    with _client(deployment, "hub1") as client:
        for topic in topics:
            with client.subscribe(topic, READER) as subscription:
                assert _received(subscription, b"kept") == [b"kept"]
