"""Prove what the unmodified Java client meets only at our hub: released topics, filters in Python, and TLS."""

import random
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from hedwig.cli.dev.ports import choose_port
from tests.hub.support.running import RunningHub
from tests.java_client.conftest import Connect
from tests.java_client.support import language_filter
from tests.java_client.support.client import PATIENCE_S, JavaClient, JavaSubscription
from tests.java_client.support.driver import JavaClientDriver, JavaError

ANN, BOB = b"ann", b"bob"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A hub that also listens for TLS, and has a filter under the name of a Java class."""
    directory = tmp_path_factory.mktemp("our-hub")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    settings = {
        "port": choose_port((), random.Random()),
        "tls_port": choose_port((), random.Random()),
        "tls_certificate": certificate,
        "tls_key": key,
        f"filters.{language_filter.NAME}": f"{language_filter.__name__}:LanguageFilter",
    }
    with RunningHub(directory, *(f"{name}={value}" for name, value in settings.items())) as started:
        yield started


def release(hub: RunningHub, topic: bytes) -> bool:
    """Make the hub release a topic, through its admin endpoint; return whether it owned the topic."""
    url = f"http://{hub.admin}/release?{urllib.parse.urlencode({'topic': topic})}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=PATIENCE_S):
            return True
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 404:
                raise
        return False


def take_up_to(subscription: JavaSubscription, last: int) -> None:
    """Take messages until `last` arrives; they may repeat, but leave no gap."""
    seen = 0
    while seen < last:
        [local] = subscription.ids(1)
        assert local <= seen + 1, f"after {seen} came {local}"
        seen = max(seen, local)


def test_a_client_recovers_when_its_topic_is_released(connect: Connect, hub: RunningHub, topic: bytes) -> None:
    client = connect()
    subscription = client.listen(topic, ANN)
    # The hub closes a shared channel with the topic. The other subscriptions on it recover too.
    neighbour = client.listen(topic + b"-neighbour", ANN)
    bob = client.listen(topic, BOB, resubscribe=False)
    assert client.publish(topic, b"first") == 1
    assert subscription.ids(1) == [1]
    assert release(hub, topic)
    assert bob.event() == "TOPIC_MOVED", "what the client makes of a closed channel"
    assert client.publish(topic, b"second") == 2
    take_up_to(subscription, 2)
    assert client.publish(topic + b"-neighbour", b"first") == 1
    assert neighbour.ids(1) == [1]
    assert (subscription.events_waiting, neighbour.events_waiting) == (0, 0)


def test_nothing_is_lost_when_a_topic_is_released_again_and_again(
    connect: Connect, hub: RunningHub, topic: bytes
) -> None:
    client = connect(consumed_messages_buffer_size=1)
    subscription = client.listen(topic, ANN)
    client.publish(topic, b"first")
    answers: list[int] = []
    publisher = threading.Thread(target=lambda: answers.extend(client.publish_many(topic, 3000, in_flight=20)))
    publisher.start()
    seen, releases = 0, 0
    while seen < 3001:
        [local] = subscription.ids(1)
        assert local <= seen + 1, f"after {seen} came {local}"
        seen = max(seen, local)
        if seen // 300 > releases:
            releases += release(hub, topic)
    publisher.join(PATIENCE_S)
    # Not in order: with each closed channel the client forgets the owner. Until it knows the owner again, each publish
    # uses a new connection, and may overtake others.
    assert sorted(answers) == list(range(2, 3002))
    assert releases >= 5


def test_a_filter_has_the_name_of_a_java_class(connect: Connect, topic: bytes) -> None:
    client = connect()
    subscription = client.listen(topic, ANN, filter=language_filter.NAME, options={"lang": b"de"})
    for lang in (b"fr", b"de", b"en", b"de"):
        client.publish(topic, lang, properties={"lang": lang})
    assert [(message.local, message.body) for message in subscription.take(2)] == [(2, b"de"), (4, b"de")]


def test_a_filter_that_refuses_the_preferences_is_invalid(connect: Connect, topic: bytes) -> None:
    client = connect()
    neighbour = client.listen(topic, BOB)
    with pytest.raises(JavaError, match="INVALID_MESSAGE_FILTER"):
        client.subscribe(topic, ANN, filter=language_filter.NAME)
    client.publish(topic, b"body")
    assert neighbour.ids(1) == [1]


def test_all_works_over_tls(driver: JavaClientDriver, hub: RunningHub, shared: bool, topic: bytes) -> None:
    [port] = [setting.removeprefix("tls_port=") for setting in hub.settings if setting.startswith("tls_port=")]
    properties = {"ssl_enabled": True, "subscription_channel_sharing_enabled": shared}
    with JavaClient(driver, f"{hub.address}:{port}", properties) as client:
        subscription = client.listen(topic, ANN)
        assert client.publish(topic, b"x" * 300_000) == 1
        client.publish_many(topic, 99)
        assert subscription.ids(100) == list(range(1, 101))
