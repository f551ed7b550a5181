"""Prove which owner a topic is said to have, its numbers, and its release, on a standalone hub."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW, Version
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.hub.support.admin_client import AdminClient

OTHER = Version(b"s" + bytes(25))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that do not end it."""
    with HubAndAdmin(tmp_path_factory.mktemp("owners")) as started:
        yield started


@pytest.fixture
def topic() -> str:
    return f"owners/{uuid.uuid4().hex}"


async def _own(url: str, name: str, hub: HubInfo) -> None:
    """Write an owner record, as a hub would do that then dies."""
    async with await open_metadata(url) as store:
        await store.ownership.write(Topic(name.encode()), hub, NEW)


# --------------------------------------------------------------------------------------------------------------- owner


def test_owner_is_named_with_whether_it_is_alive(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    pair.admin.done("topic", "create", f"{topic}/idle")
    rows = pair.admin.done("topic", "owner", topic, f"{topic}/idle", topic, "-o", "ndjson").rows
    assert [(row["topic"], row["owner"], row["state"]) for row in rows] == [
        (topic, pair.hub.address, "alive"),
        (f"{topic}/idle", None, "none"),
    ]
    assert rows[0]["admin"] == pair.hub.admin
    assert rows[0]["version"] == AdminClient(pair.hub.admin).get(f"/topics/{topic}")["owner_version"]
    assert pair.admin.done("topic", "owner", topic).out.splitlines()[0].split() == ["TOPIC", "OWNER", "STATE", "WHY"]


def test_owner_of_a_topic_that_is_not_there_is_an_error_and_the_others_are_shown(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    ran = pair.admin.run("topic", "owner", "no-such", topic, "-o", "ndjson")
    assert (ran.code, [row["topic"] for row in ran.rows]) == (ExitCode.NOT_FOUND, [topic])
    assert "'no-such'" in ran.err


def test_owner_that_nobody_can_ask_after_is_unknown(pair: HubAndAdmin, topic: str) -> None:
    pair.admin.done("topic", "create", topic)
    asyncio.run(_own(pair.admin.url, topic, HubInfo(host="127.0.0.1", port=9, epoch=77)))
    row = pair.admin.done("topic", "owner", topic, "-o", "json").json["topics"][0]
    assert (row["owner"], row["state"], row["epoch"]) == ("127.0.0.1:9", "unknown", 77)
    assert "--cluster" in row["why"]


def test_owner_whose_admin_endpoint_is_elsewhere_is_unknown_until_it_is_named(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    row = pair.admin.done("topic", "owner", topic, "--admin", "127.0.0.1:1", "-o", "json").json["topics"][0]
    assert (row["state"], row["admin"]) == ("unknown", None)
    assert "--admin HOST:PORT" in row["why"]


def test_owner_that_was_killed_is_gone_and_so_is_its_earlier_start(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        pair.publish("news", b"one")
        pair.hub.kill()
        row = pair.admin.done("topic", "owner", "news", "-o", "json").json["topics"][0]
        assert (row["owner"], row["state"]) == (pair.hub.address, "gone")
        for dry_run in ((), ("--dry-run",)):
            released = pair.admin.done("topic", "release", "news", *dry_run, "-o", "json")
            assert (released.json["result"], released.json["owner_state"]) == ("owner gone", "gone")
            assert f"its owner {pair.hub.address} is gone (nothing listens at its address)" in released.err
            assert "metadata repair --kind dead-owner" in released.err
        pair.start()
        row = pair.admin.done("topic", "owner", "news", "-o", "json").json["topics"][0]
        assert (row["state"], row["epoch"]) == ("gone", 1)
        assert "started again" in row["why"]
        pair.publish("news", b"two")
        row = pair.admin.done("topic", "owner", "news", "-o", "json").json["topics"][0]
        assert (row["state"], row["epoch"]) == ("alive", 2)


# ------------------------------------------------------------------------------------------------------------- release


def test_release_lets_go_of_a_topic(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    owned = pair.admin.done("topic", "owner", topic, "--columns", "version", "--no-header").out.strip()
    released = pair.admin.done("topic", "release", topic, "-o", "json").json
    assert released == {
        "topic": topic,
        "result": "released",
        "owner": pair.hub.address,
        "owner_state": "alive",
        "version": owned,
    }
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 404
    again = pair.admin.done("topic", "release", topic, "-o", "json").json
    assert (again["result"], again["owner"], again["version"]) == ("not owned", None, None)


def test_dry_run_of_a_release_looks_and_changes_nothing(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    would = pair.admin.done("topic", "release", topic, "--dry-run", "-o", "json").json
    assert (would["result"], would["owner"]) == ("would release", pair.hub.address)
    assert AdminClient(pair.hub.admin).get(f"/topics/{topic}")["owner_version"] == would["version"]
    pair.admin.done("topic", "release", topic)
    nothing = pair.admin.done("topic", "release", topic, "--dry-run", "-o", "json").json
    assert (nothing["result"], nothing["owner"]) == ("not owned", None)


def test_release_of_what_its_owner_has_not_taken_up_takes_the_record_away(pair: HubAndAdmin, topic: str) -> None:
    """The hub denies owning it, as after another hub named it the owner, or after it failed to delete its record."""
    pair.admin.done("topic", "create", topic)
    epoch = AdminClient(pair.hub.admin).get("/health")["epoch"]
    asyncio.run(_own(pair.admin.url, topic, HubInfo.at(pair.hub.address, epoch=epoch)))
    assert pair.admin.done("topic", "owner", topic, "-o", "json").json["topics"][0]["state"] == "alive"
    assert pair.admin.done("topic", "release", topic, "-o", "json").json["result"] == "released"
    assert pair.admin.done("topic", "show", topic, "-o", "json").json["owner"] is None


def test_release_goes_by_the_version_of_the_owner_record(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    refused = pair.admin.run("topic", "release", topic, "--expected-version", str(OTHER))
    assert refused.code == ExitCode.VERSION_CONFLICT
    assert f"owner {pair.hub.address}" in refused.err
    version = pair.admin.done("topic", "owner", topic, "--columns", "version", "--no-header").out.strip()
    assert version in refused.err
    pair.admin.done("topic", "release", topic, "--expected-version", version)
    nobody = pair.admin.run("topic", "release", topic, "--expected-version", version)
    assert nobody.code == ExitCode.NOT_FOUND


def test_names_of_any_bytes_reach_the_hub(pair: HubAndAdmin) -> None:
    for name in ("../..", "a/./b", "with space?&%/#", "käse", "\\xff\\\\"):
        assert pair.admin.run("publish", name, "m", HEDWIG_HUB=pair.hub.address).code == 0
        assert pair.admin.done("topic", "stats", name, "--over", "0", "-o", "json").json["last_id"] == 1, name
        assert pair.admin.done("topic", "release", name, "-o", "json").json["result"] == "released"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("topic", "owner"), 2, ["NAME"]),
        (("topic", "owner", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "release", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "stats", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "move", "TOPIC", "127.0.0.1:1"), 2, ["no cluster was named", "--cluster"]),
        (("topic", "release", "TOPIC", "--admin", "127.0.0.1:1"), 6, ["not known", "--admin HOST:PORT"]),
        (("topic", "stats", "TOPIC", "--over", "-1"), 2, ["--over"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    pair: HubAndAdmin, topic: str, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    pair.publish(topic, b"m")
    ran = pair.admin.run(*(topic if word == "TOPIC" else word for word in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("error: ")
    for word in words:
        assert word in ran.err


# --------------------------------------------------------------------------------------------------------------- stats


def test_stats_of_an_owned_topic_are_those_of_its_owner(pair: HubAndAdmin, topic: str) -> None:
    pair.subscribe(topic, "away")
    pair.subscribe(topic, "reader")
    pair.publish(topic, *[b"m"] * 5)
    assert pair.read(topic, "reader", 3) == [1, 2, 3]
    stats = pair.admin.done("topic", "stats", topic, "--over", "0.1", "-o", "json").json
    assert stats["rate_over_s"] >= 0.1
    shown = {key: stats[key] for key in ("owner", "owner_state", "durable", "first_id", "last_id", "subscriptions")}
    assert shown == {
        "owner": pair.hub.address,
        "owner_state": "alive",
        "durable": True,
        "first_id": 1,
        "last_id": 5,
        "subscriptions": 2,
    }
    assert (stats["stored_messages"], stats["ledgers"], stats["attached"]) == (5, 1, 0)
    assert (stats["lag_messages_max"], stats["publishes_per_s"]) == (5, 0)


def test_stats_say_how_fast_a_topic_grows(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    process = pair.admin.start(
        "publish", topic, "--rate", "200", "-o", "ndjson", HEDWIG_HUB=pair.hub.address, HEDWIG_METADATA=pair.admin.url
    )
    try:
        assert process.stdin is not None
        process.stdin.write(b"line\n" * 2000)
        process.stdin.flush()
        client = AdminClient(pair.hub.admin)
        wait_until(lambda: client.get(f"/topics/{topic}")["last_id"] > 5, "it is published to")
        stats = pair.admin.done("topic", "stats", topic, "--over", "1", "-o", "json").json
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert stats["publishes_per_s"] > 5


def test_stats_of_a_topic_that_nobody_owns_are_those_of_the_store(pair: HubAndAdmin, topic: str) -> None:
    pair.subscribe(topic, "away")
    pair.publish(topic, *[b"m"] * 4)
    pair.admin.done("topic", "release", topic)
    stats = pair.admin.done("topic", "stats", topic, "-o", "json").json
    assert (stats["owner"], stats["owner_state"], stats["publishes_per_s"]) == (None, "none", None)
    assert (stats["first_id"], stats["last_id"], stats["stored_messages"]) == (1, 4, 4)
    assert (stats["subscriptions"], stats["lag_messages_max"]) == (1, 4)


def test_stats_of_a_topic_without_messages(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    stats = admin.done("topic", "stats", "news", "-o", "json").json
    assert (stats["last_id"], stats["stored_messages"], stats["ledgers"], stats["lag_messages_max"]) == (0, 0, 0, 0)


def test_stats_do_not_guess_what_a_killed_hub_left_in_an_open_ledger(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        pair.publish("news", b"one")
        pair.hub.kill()
        stats = pair.admin.done("topic", "stats", "news", "-o", "json").json
        assert (stats["owner_state"], stats["last_id"], stats["stored_messages"]) == ("gone", None, None)
