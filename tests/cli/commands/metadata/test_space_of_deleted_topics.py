"""Prove that a standalone hub deletes the messages of deleted topics from its disk, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.hub.support.admin_client import AdminClient

MIB: Final = 1 << 20


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path) as started:
        yield started


def _stored(pair: HubAndAdmin) -> int:
    """Return how many bytes the hub's ledgers take on disk."""
    metrics = AdminClient(pair.hub.admin).ask("GET", "/metrics").text
    match = re.search(r"^hedwig_hub_ledger_store_stored_bytes (\S+)$", metrics, re.MULTILINE)
    assert match is not None, metrics
    return int(float(match[1]))


def _fill(pair: HubAndAdmin, topic: str) -> None:
    """Publish 4 MiB."""
    pair.publish(topic, *([b"." * (MIB // 8)] * 32))
    assert _stored(pair) > 4 * MIB


def test_messages_of_a_deleted_topic_go_at_once(pair: HubAndAdmin) -> None:
    pair.publish("kept", b"message")
    pair.subscribe("news", "reader")
    _fill(pair, "news")
    planned = pair.admin.done("topic", "delete", "news", "--force", "--dry-run", "-o", "json")
    assert (planned.json["ledgers_left"], planned.err) == (0, "")
    deleted = pair.admin.done("topic", "delete", "news", "--force", "--yes", "-o", "json")
    assert (deleted.json["ledgers"], deleted.json["ledgers_left"], deleted.err) == (1, 0, "")
    # The hub frees the space within a minute; the newest segment may keep 1 MiB.
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


def _orphans(pair: HubAndAdmin) -> list[tuple[list[int], bool]]:
    ran = pair.admin.run("metadata", "check", "--kind", "orphan-ledger", "-o", "ndjson")
    return [(row["ledger_ids"], row["repairable"]) for row in ran.rows]


def _results(pair: HubAndAdmin) -> list[str]:
    return [row["result"] for row in pair.admin.done("ledger", "delete-orphans", "--yes", "-o", "ndjson").rows]


def test_orphans_are_deleted_by_the_hub_that_runs(pair: HubAndAdmin) -> None:
    pair.publish("kept", b"message")
    pair.subscribe("news", "reader")
    _fill(pair, "news")
    pair.admin.done("topic", "release", "news")
    pair.admin.done("topic", "delete", "news", "--offline", "--yes", "--force")
    (orphan,) = _orphans(pair)
    assert orphan[1]
    (planned,) = pair.admin.done("ledger", "delete-orphans", "--dry-run", "-o", "ndjson").rows
    assert (planned["result"], planned["ledger_ids"]) == ("would be repaired", orphan[0])
    refused = pair.admin.run("ledger", "delete-orphans", "--yes", "--admin", "127.0.0.1:1")
    assert (refused.code, "--admin HOST:PORT, or stop the hub" in refused.err) == (ExitCode.UNAVAILABLE, True), refused
    assert _results(pair) == ["repaired"]
    assert _orphans(pair) == []
    wait_until(lambda: _stored(pair) < MIB, "the space")
    pair.publish("kept", b"another")
    assert [row["id"] for row in pair.admin.done("message", "peek", "kept", "-o", "ndjson").rows] == [1, 2]


def test_orphans_of_a_hub_that_ended_between_a_record_and_its_ledgers_are_found_and_deleted(pair: HubAndAdmin) -> None:
    """No topic refers to them any more."""
    _fill(pair, "news")
    pair.hub.kill()
    pair.admin.done("topic", "delete", "news", "--yes", "--force")
    assert [is_repairable for _, is_repairable in _orphans(pair)] == [True]
    assert pair.admin.run("metadata", "check").code == 1, "it warns"
    pair.start()
    ran = pair.admin.run("metadata", "check")
    assert (ran.code, "orphan-ledger" in ran.out) == (1, True), ran
    pair.hub.stop()
    assert _results(pair) == ["repaired"]
    assert _orphans(pair) == []
    pair.start()
    wait_until(lambda: _stored(pair) < MIB, "the space")


def test_messages_that_wiped_or_foreign_metadata_do_not_know_are_kept(pair: HubAndAdmin) -> None:
    pair.hub.stop()
    pair.start()
    _fill(pair, "news")
    pair.hub.stop()
    other = f"sqlite://{pair.admin.directory}/other.db"
    pair.admin.done("metadata", "format", "--metadata", other)
    pair.admin.done("ledger", "delete-orphans", "--yes", "--metadata", other)
    for path in pair.hub.data.glob("metadata.db*"):
        path.unlink()
    pair.start()
    assert [is_repairable for _, is_repairable in _orphans(pair)] == [False]
    assert "the store was wiped" in pair.admin.run("metadata", "check", "-o", "ndjson").out
    pair.admin.done("ledger", "delete-orphans", "--yes")
    assert _stored(pair) > 4 * MIB
