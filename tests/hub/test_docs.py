"""Prove that the message filter of docs/how-to/hub.md works, under both names that the page gives it."""

import re
from pathlib import Path
from typing import Final

import pytest

from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.errors import InvalidMessageFilterError
from hedwig.hub.options.keys import keys
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from tests.hub.support.running import RunningHub
from tests.support.checkout import CHECKOUT

PAGE: Final = (CHECKOUT / "docs" / "how-to" / "hub.md").read_text()
TOPIC: Final = Topic(b"news")


def test_the_filter_of_the_page_accepts_what_it_says(tmp_path: Path) -> None:
    (module,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (options,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_filters.py").write_text(module)
    (tmp_path / "hub.toml").write_text(options)
    environment = {"PYTHONPATH": f"{CHECKOUT}:{tmp_path}", "HEDWIG_HUB_CONFIG": str(tmp_path / "hub.toml")}
    with (
        RunningHub(tmp_path / "hub", environment=environment) as hub,
        BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client,
    ):
        short = SubscriptionPreferences(message_filter="short", options={"bytes": b"3"})
        java = SubscriptionPreferences(message_filter="com.example.ShortMessageFilter")
        readers = [
            client.subscribe(TOPIC, SubscriberId(b"short"), preferences=short),
            client.subscribe(TOPIC, SubscriberId(b"java"), preferences=java),
        ]
        bodies = [b"one", b"three", b"x" * 101, b"two", b"x" * 100]
        for body in bodies:
            client.publish(TOPIC, body)
        assert [next(readers[0]).body for _ in range(2)] == [b"one", b"two"]
        assert [next(readers[1]).body for _ in range(4)] == [b"one", b"three", b"two", b"x" * 100]
        unknown = SubscriptionPreferences(message_filter="unknown")
        with pytest.raises(
            InvalidMessageFilterError, match=r"it has: com\.example\.ShortMessageFilter, hedwig:properties, short"
        ):
            client.subscribe(TOPIC, SubscriberId(b"unknown"), preferences=unknown)
        assert client.publish(TOPIC, b"on").local == len(bodies) + 1


def test_the_page_names_no_option_that_is_not_there() -> None:
    mapping = PAGE.partition("### From the original's configuration")[2].partition("## TLS")[0]
    ours = [row.split("|")[2] for row in mapping.splitlines() if row.startswith("| `")]
    assert len(ours) > 20
    named = {name for cell in ours for name in re.findall(r"`([a-z_.]+)`", cell)}
    assert named <= set(keys())
