"""Prove that the serving hub itself deletes a topic, and that no command does so behind its back."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo, LedgerRanges, Topic
from hedwig.versions import NEW
from tests.cli.support.admin import Admin
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.hub.support.admin_client import AdminClient
from tests.support.servers import RunningServers


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that do not end it."""
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
    assert (planned["result"], planned["subscriptions"]) == ("would delete", 1)
    assert (planned["owner"], planned["owner_state"]) == (pair.hub.address, "alive")
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 200
    deleted = pair.admin.done("topic", "delete", topic, "--force", "--yes", "-o", "json").json
    assert (deleted["result"], deleted["owner"], deleted["subscriptions"]) == ("deleted", pair.hub.address, 1)
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
    planned = pair.admin.run("topic", "delete", topic, "--force", "--dry-run", "--admin", "127.0.0.1:1")
    assert (planned.code, planned.out) == (ExitCode.UNAVAILABLE, ""), "it says what the deletion itself would say"
    assert pair.admin.done("topic", "show", topic, "-o", "json").json["owner"] is not None


def test_owner_that_is_gone_needs_nobody_to_release_it(topic: str, admin: Admin) -> None:
    with HubAndAdmin(admin.directory / "other") as other:
        other.publish(topic, b"m")
        other.publish("read", b"m")
        other.subscribe("read", "reader")
        other.hub.kill()
        planned = other.admin.done("topic", "delete", topic, "--dry-run", "-o", "json").json
        assert (planned["owner"], planned["owner_state"]) == (other.hub.address, "gone")
        asked = other.admin.run("topic", "delete", topic, text="n\n")
        assert f"with the owner {other.hub.address} and the only record of 1 ledger for good" in asked.err
        deleted = other.admin.done("topic", "delete", topic, "--yes", "-o", "json").json
        assert (deleted["result"], deleted["owner"], deleted["owner_state"]) == ("deleted", other.hub.address, "gone")
        assert other.admin.run("topic", "show", topic).code == ExitCode.NOT_FOUND
        refused = other.admin.run("topic", "delete", "read", "--yes")
        assert (refused.code, "it has 1 subscription; --force" in refused.err) == (ExitCode.FAILED, True)
        other.admin.done("topic", "delete", "read", "--yes", "--force")
        other.start()
        other.publish(topic, b"of the new topic")
        (row,) = other.admin.done("message", "peek", topic, "-o", "ndjson").rows
        assert (row["id"], row["body"]) == (1, "of the new topic")


def test_owner_that_was_started_again_since_is_no_obstacle_and_what_it_owns_now_is(topic: str, admin: Admin) -> None:
    with HubAndAdmin(admin.directory / "other") as other:
        other.publish(topic, b"m")
        other.publish("used", b"m")
        other.hub.kill()
        other.start()
        other.publish("used", b"again")
        other.admin.done("topic", "delete", topic, "--yes")
        assert other.admin.run("topic", "delete", "used", "--yes").code == ExitCode.FAILED


def _record(url: str, topic: str, owner: HubInfo, starts_at: str | None) -> None:
    """Write an owner record; register a standalone hub once if it has an address."""

    async def write() -> None:
        async with await open_metadata(url) as store:
            if starts_at is not None:
                await store.register_standalone("hub", starts_at)
            await store.persistence.write(Topic(topic.encode()), LedgerRanges(), NEW)
            await store.ownership.write(Topic(topic.encode()), owner, NEW)

    asyncio.run(write())


@pytest.mark.parametrize(
    ("registered", "owner"),
    [
        (None, HubInfo(host="127.0.0.1", port=1, epoch=1)),
        ("127.0.0.1:2:-1", HubInfo(host="127.0.0.1", port=1, epoch=1)),
        ("127.0.0.1:1:-1", HubInfo(host="127.0.0.1", port=1, epoch=2)),
        ("192.0.2.1:1:-1", HubInfo(host="192.0.2.1", port=1, epoch=1)),
    ],
    ids=["no hub", "another hub", "a later start", "another machine"],
)
def test_owner_of_which_nothing_is_known_counts_as_alive(admin: Admin, registered: str | None, owner: HubInfo) -> None:
    _record(admin.url, "news", owner, registered)
    refused = admin.run("topic", "delete", "news", "--yes", "--timeout", "1")
    assert refused.code == ExitCode.FAILED
    assert f"the owner {owner.name} (not known for sure to be down: " in refused.err
    if owner.host == "127.0.0.1":  # For the other address, the network decides whether anything answers.
        assert admin.run("topic", "delete", "news", "--yes", "--force", "--timeout", "1").code == ExitCode.UNAVAILABLE
    assert admin.count("ownership") == admin.count("persistence") == 1
    admin.done("topic", "delete", "news", "--yes", "--force", "--offline")


def test_loopback_of_a_hub_whose_store_is_on_the_network_may_be_that_of_another_machine(
    admin: Admin, servers: RunningServers
) -> None:
    owner = HubInfo(host="127.0.0.1", port=1, epoch=1)
    url = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    admin.done("metadata", "format", "--metadata", url)
    for store in (admin.url, url):
        _record(store, "news", owner, owner.address)
    admin.done("topic", "delete", "news", "--yes")
    refused = admin.run("topic", "delete", "news", "--yes", "--metadata", url)
    assert refused.code == ExitCode.FAILED
    assert "not known for sure to be down: nothing listens at its address" in refused.err


def test_subscription_made_while_the_question_stands_is_not_deleted_unasked(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    process = admin.start("topic", "delete", "news")
    assert process.stdin is not None
    assert process.stderr is not None
    asked = b""
    while b"[y/N]" not in asked:
        byte = process.stderr.read(1)
        assert byte, asked
        asked += byte
    admin.done("subscription", "create", "news", "reader")
    process.stdin.write(b"y\n")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, b"it has 1 subscription; --force" in err) == (ExitCode.FAILED, True)
    assert admin.count("subscriptions") == admin.count("persistence") == 1
