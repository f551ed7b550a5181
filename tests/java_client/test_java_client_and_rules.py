"""Prove that the unmodified Java client works where the rules allow it, and does no harm where they do not."""

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hedwig.cli.dev.ports import choose_port
from hedwig.private_files import ADMIN_TOKEN
from tests.cli.support.admin import Admin, wait_until
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.hub.support.tls_client import Authority, make_certificate
from tests.java_client.conftest import Connect
from tests.java_client.support.client import JavaClient
from tests.java_client.support.driver import JavaClientDriver, JavaError, Value

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
    shown = {"Authorization": f"Bearer {(hub.data / ADMIN_TOKEN).read_text().strip()}"}
    metrics = AdminClient(hub.admin).ask("GET", "/metrics", shown).text
    found = re.search(rf"^hedwig_hub_{name} (\S+)$", metrics, re.MULTILINE)
    assert found is not None
    return float(found[1])


def test_it_is_served_refused_and_served_again(connect: Connect, hub: RunningHub, rules: Admin, topic: bytes) -> None:
    client = connect()
    for refused in (lambda: client.publish(topic, b"m"), lambda: client.subscribe(topic, ANN)):
        with pytest.raises(JavaError, match="MALFORMED_REQUEST"):
            refused()
    assert metric(hub, "acquired_topics_total") == 0
    rules.done("access", "allow", WHO, *ALL)
    wait_until(lambda: _publishes(connect(), topic), "the hub knows the rule")
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
    wait_until(lambda: _publishes(connect(), topic), "the hub knows the rule again")


@pytest.fixture
def listeners() -> Mapping[str, int]:
    """The ports of listeners for Java clients: two at which they may all, and one at which they may nothing."""
    return {name: choose_port((), random.Random()) for name in ("plain", "secure", "shut")}


@pytest.fixture
def with_listeners(listeners: Mapping[str, int], tmp_path: Path) -> Iterator[RunningHub]:
    """A hub with named listeners, and with nothing to be had at its own port."""
    authority = Authority(tmp_path / "authority")
    settings = {
        "access.mode": "rules",
        "access.anonymous": "",
        "access.refresh_s": "0.1",
        "access.client_ca": authority.certificate,
        "tls_certificate": make_certificate(tmp_path),
        "listeners.plain.anonymous": "legacy-java",
        "listeners.secure.anonymous": "legacy-java",
        "listeners.secure.tls": "1.2",
        "listeners.secure.client_certificates": "optional",
    }
    ports = (f"listeners.{name}.port={port}" for name, port in listeners.items())
    with RunningHub(tmp_path / "hub", *ports, *(f"{key}={value}" for key, value in settings.items())) as started:
        yield started


def test_the_listener_says_who_it_is(
    driver: JavaClientDriver,
    with_listeners: RunningHub,
    listeners: Mapping[str, int],
    tmp_path: Path,
    shared: bool,
    topic: bytes,
) -> None:
    admin = Admin(tmp_path, f"sqlite://{with_listeners.data / 'metadata.db'}")
    admin.done("access", "allow", WHO, *ALL)
    sharing: dict[str, Value] = {"subscription_channel_sharing_enabled": shared}
    for name in ("plain", "secure"):
        address = f"127.0.0.1:{listeners[name]}:{listeners[name]}"
        with JavaClient(driver, address, {**sharing, "ssl_enabled": name == "secure"}) as client:
            wait_until(lambda: _publishes(client, topic), "the hub knows the rule")
            subscription = client.listen(topic, name.encode())
            last = client.publish(topic, b"m")
            assert subscription.ids(1) == [last]
    for address in (f"127.0.0.1:{listeners['shut']}", with_listeners.address):
        with JavaClient(driver, address, sharing) as client:
            for refused in (client.publish, client.subscribe):
                with pytest.raises(JavaError, match="MALFORMED_REQUEST"):
                    refused(topic, b"m")


def _publishes(client: JavaClient, topic: bytes) -> bool:
    try:
        client.publish(topic, b"m")
    except JavaError:
        return False
    return True
