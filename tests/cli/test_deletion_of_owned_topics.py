"""Prove that a topic which a living hub serves is deleted with that hub, never behind its back."""

import uuid
from collections.abc import Iterator

import pytest

from cli.errors import ExitCode
from tests.cli.admin import Admin
from tests.cli.hub_and_admin import HubAndAdmin
from tests.hub.admin_client import AdminClient


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that leave it running."""
    with HubAndAdmin(tmp_path_factory.mktemp("deletion")) as started:
        yield started


@pytest.fixture
def topic() -> str:
    return f"deletion/{uuid.uuid4().hex}"


def test_owner_that_is_alive_is_refused_without_force(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    ran = pair.admin.run("topic", "delete", topic, "--yes")
    assert (ran.code, "the owner 127.0.0.1" in ran.err, "--force" in ran.err) == (ExitCode.FAILED, True, True)
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 200


def test_force_has_the_owner_release_the_topic_so_that_nothing_acknowledged_is_lost(
    pair: HubAndAdmin, topic: str
) -> None:
    pair.subscribe(topic, "reader")
    pair.publish(topic, b"of the old topic")
    planned = pair.admin.done("topic", "delete", topic, "--force", "--dry-run", "-o", "json").json
    assert (planned["result"], planned["owner"], planned["subscriptions"]) == ("would delete", True, 1)
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 200
    deleted = pair.admin.done("topic", "delete", topic, "--force", "--yes", "-o", "json").json
    assert (deleted["result"], deleted["owner"], deleted["subscriptions"]) == ("deleted", True, 1)
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 404
    pair.subscribe(topic, "reader")
    pair.publish(topic, b"of the new topic")
    assert pair.admin.done("topic", "show", topic, "-o", "json").json["ledger_count"] == 1
    (row,) = pair.admin.done("message", "peek", topic, "-o", "ndjson").rows
    assert (row["id"], row["body"]) == (1, "of the new topic")
    assert pair.read(topic, "reader", 1) == [1]


def test_owner_that_cannot_be_asked_is_not_gone_around(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    refused = pair.admin.run("topic", "delete", topic, "--force", "--yes", "--admin", "127.0.0.1:1")
    assert (refused.code, "--offline" in refused.err, "--admin" in refused.err) == (ExitCode.UNAVAILABLE, True, True)
    assert len(refused.err.splitlines()) == 1
    assert pair.admin.done("topic", "show", topic, "-o", "json").json["owner"] is not None


def test_owner_that_is_gone_needs_nobody_to_release_it(pair: HubAndAdmin, topic: str, admin: Admin) -> None:
    with HubAndAdmin(admin.directory / "other") as other:
        other.publish(topic, b"m")
        other.hub.kill()
        deleted = other.admin.done("topic", "delete", topic, "--force", "--yes", "-o", "json").json
        assert (deleted["result"], deleted["owner"]) == ("deleted", True)
        assert other.admin.run("topic", "show", topic).code == ExitCode.NOT_FOUND
