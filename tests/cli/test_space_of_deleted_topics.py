"""Prove that the messages of deleted topics go from a standalone hub's disk, and never those that a topic refers to."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli.admin import wait_until
from tests.cli.hub_and_admin import HubAndAdmin
from tests.hub.admin_client import AdminClient

MIB: Final = 1 << 20


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path) as started:
        yield started


def _stored(pair: HubAndAdmin) -> int:
    """Return how many bytes the hub's ledgers have on disk."""
    metrics = AdminClient(pair.hub.admin).ask("GET", "/metrics").text
    found = re.search(r"^hedwig_hub_ledger_store_stored_bytes (\S+)$", metrics, re.MULTILINE)
    assert found is not None, metrics
    return int(float(found[1]))


def _fill(pair: HubAndAdmin, topic: str) -> None:
    """Publish four mebibytes."""
    pair.publish(topic, *([b"." * (MIB // 8)] * 32))
    assert _stored(pair) > 4 * MIB


def test_messages_of_a_deleted_topic_go_at_once(pair: HubAndAdmin) -> None:
    pair.publish("kept", b"message")
    _fill(pair, "news")
    pair.subscribe("news", "reader")
    planned = pair.admin.done("topic", "delete", "news", "--force", "--dry-run", "-o", "json")
    assert (planned.json["ledgers_left"], planned.err) == (0, "")
    deleted = pair.admin.done("topic", "delete", "news", "--force", "--yes", "-o", "json")
    assert (deleted.json["ledgers"], deleted.json["ledgers_left"], deleted.err) == (1, 0, "")
    # It is within a minute; the newest segment may keep a mebibyte.
    wait_until(lambda: _stored(pair) < MIB, "the space")
    (row,) = pair.admin.done("message", "peek", "kept", "-o", "ndjson").rows
    assert row["body"] == "message"
    assert pair.admin.done("metadata", "check", "-o", "ndjson").rows == []


def test_ledgers_that_stay_are_told(pair: HubAndAdmin) -> None:
    pair.publish("news", b"message")
    pair.publish("weather", b"message")
    pair.admin.done("topic", "release", "news")
    offline = pair.admin.done("topic", "delete", "news", "--offline", "--yes", "-o", "json")
    assert (offline.json["ledgers_left"], "ledger delete-orphans" in offline.err) == (1, True)
    pair.hub.kill()
    planned = pair.admin.done("topic", "delete", "weather", "--dry-run", "-o", "json")
    assert (planned.json["ledgers_left"], "1 ledger would stay" in planned.err) == (1, True)
    down = pair.admin.done("topic", "delete", "weather", "--yes", "-o", "json")
    assert (down.json["ledgers_left"], "1 ledger stays" in down.err) == (1, True)
