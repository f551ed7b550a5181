"""Prove that the unmodified Java client works where the rules allow it, and does no harm where they do not."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support.admin import Admin, wait_until
from tests.hub.support.running import RunningHub
from tests.java_client.conftest import Connect
from tests.java_client.support.client import PATIENCE_S
from tests.java_client.support.driver import JavaError

ANN = b"ann"
WHO = "user:legacy-java"
ALL = ("*", "*", "--as", "*")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[RunningHub]:
    settings = ("access.mode=rules", "access.anonymous=legacy-java", "access.refresh_s=0.1")
    with RunningHub(tmp_path / "hub", *settings) as started:
        yield started


@pytest.fixture
def rules(hub: RunningHub, tmp_path: Path) -> Admin:
    """hedwig-admin on the hub's store."""
    return Admin(tmp_path, f"sqlite://{hub.data / 'metadata.db'}")


def metric(hub: RunningHub, name: str) -> float:
    with urllib.request.urlopen(f"http://{hub.admin}/metrics", timeout=PATIENCE_S) as answer:
        found = re.search(rf"^hedwig_hub_{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_it_is_served_refused_and_served_again(connect: Connect, hub: RunningHub, rules: Admin, topic: bytes) -> None:
    client = connect()
    for refused in (lambda: client.publish(topic, b"m"), lambda: client.subscribe(topic, ANN)):
        with pytest.raises(JavaError, match="MALFORMED_REQUEST"):
            refused()
    assert metric(hub, "acquired_topics_total") == 0
    rules.done("access", "allow", WHO, *ALL)
    wait_until(lambda: _is_published(connect, topic), "the hub knows the rule")
    subscription = client.listen(topic, ANN)
    last = client.publish(topic, b"second")
    assert subscription.ids(1) == [last]
    refused_before = metric(hub, "unpermitted_requests_total")
    rules.done("access", "revoke", "allow", WHO, *ALL)
    # The client attaches again and again, for ever.
    wait_until(lambda: metric(hub, "unpermitted_requests_total") >= refused_before + 3, "it is refused several times")
    acquired = metric(hub, "acquired_topics_total")
    with pytest.raises(JavaError, match="MALFORMED_REQUEST"):
        client.publish(topic, b"m")
    assert metric(hub, "acquired_topics_total") == acquired
    rules.done("access", "allow", WHO, *ALL)
    wait_until(lambda: _is_published(connect, topic), "the hub knows the rule again")


def _is_published(connect: Connect, topic: bytes) -> bool:
    try:
        connect().publish(topic, b"m")
    except JavaError:
        return False
    return True
