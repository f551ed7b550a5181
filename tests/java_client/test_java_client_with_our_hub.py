"""What the unmodified Java client meets at our hub only: topics that are released while in use, and TLS."""

import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from cli.dev.ports import choose_port
from tests.hub.running import RunningHub
from tests.java_client.client import PATIENCE_S, JavaClient
from tests.java_client.conftest import Connect
from tests.java_client.driver import JavaClientDriver

ANN = b"ann"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A hub that releases every topic after a moment, in use or not, and listens for TLS too."""
    directory = tmp_path_factory.mktemp("our-hub")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    settings = {
        "topic_age_s": 0.5,
        "topic_sweep_s": 0.1,
        "tls_port": choose_port((), random.Random()),
        "tls_certificate": certificate,
        "tls_key": key,
    }
    with RunningHub(directory, *(f"{name}={value}" for name, value in settings.items())) as started:
        yield started


def tls_address(hub: RunningHub) -> str:
    [port] = [setting.removeprefix("tls_port=") for setting in hub.settings if setting.startswith("tls_port=")]
    return f"{hub.address}:{port}"


def test_a_client_loses_nothing_when_the_hub_releases_its_topic(connect: Connect, topic: bytes) -> None:
    client = connect(consumed_messages_buffer_size=1)
    subscription = client.listen(topic, ANN)
    published, received = 0, 0
    for number in range(3):
        # It is told when its channel ends, which shows that the topic was released. The Java client never gets over
        # such an event: the same subscriber cannot subscribe with it again.
        told = client.listen(topic, b"told-%d" % number, resubscribe=False)
        deadline = time.monotonic() + PATIENCE_S
        while not told.events_waiting:
            assert time.monotonic() < deadline, "the topic was not released"
            published += 1
            assert client.publish(topic, b"body") == published
            while received < published:
                [local] = subscription.ids(1)
                assert local <= received + 1, "a gap"
                received = max(received, local)
        assert told.event() == "TOPIC_MOVED"
    assert subscription.events_waiting == 0


def test_all_works_over_tls(driver: JavaClientDriver, hub: RunningHub, shared: bool, topic: bytes) -> None:
    properties = {"ssl_enabled": True, "subscription_channel_sharing_enabled": shared}
    with JavaClient(driver, tls_address(hub), properties) as client:
        subscription = client.listen(topic, ANN)
        assert client.publish(topic, b"x" * 300_000) == 1
        client.publish_many(topic, 99)
        received: set[int] = set()
        while len(received) < 100:
            received |= set(subscription.ids(1))
        assert received == set(range(1, 101))
