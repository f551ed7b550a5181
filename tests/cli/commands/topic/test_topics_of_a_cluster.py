"""Prove the commands about topics that hubs of a cluster own: owners, moves, ledgers, and the load of hubs."""

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.versions import NEW
from tests.cli.commands.hub.test_hubs_of_a_cluster import Pair
from tests.cli.support.command_tree import example_of
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.support.servers import RunningServers


@pytest.fixture(scope="module")
def pair(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hubs, not drained, for all tests that do not end them."""
    with Pair(servers, tmp_path_factory.mktemp("topics"), "bookkeeper.own_ledgers=own/*") as started:
        started.admin.environment |= {"HEDWIG_METADATA": started.cluster, "HEDWIG_ADMIN": ""}
        yield started


@pytest.fixture
def topic() -> str:
    return f"moves/{uuid.uuid4().hex}"


@pytest.fixture
def apart() -> str:
    """A topic with ledgers of its own."""
    return f"own/{uuid.uuid4().hex}"


def _publish(hub: RunningHub, topic: str, *bodies: bytes) -> None:
    with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client:
        for body in bodies:
            client.publish(Topic(topic.encode()), body)


def _owner(pair: Pair, topic: str) -> tuple[str, str]:
    (row,) = pair.admin.done("topic", "owner", topic, "-o", "json").json["topics"]
    return row["owner"], row["state"]


def _to(hub: RunningHub) -> str:
    """Return the parameters that name a hub as it is registered."""
    health = AdminClient(hub.admin).get("/health")
    return f"to={health['address']}&epoch={health['epoch']}"


def _claim(pair: Pair, topic: str, hub: RunningHub) -> None:
    """Make a hub the owner of a topic, whichever hub owns it now."""
    pair.admin.done("topic", "create", topic, "--if-not-exists")
    pair.admin.done("topic", "move", topic, hub.address)


async def _own(url: str, name: str, hub: HubInfo) -> None:
    async with await open_metadata(url) as store:
        await store.ownership.write(Topic(name.encode()), hub, NEW)


def test_move_takes_a_topic_to_another_hub_and_back(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    assert _owner(pair, topic) == (one.address, "alive")
    _publish(one, topic, b"first")
    moved = pair.admin.done("topic", "move", topic, other.address, "-o", "json").json
    assert (moved["result"], moved["from"], moved["owner"]) == ("moved", one.address, other.address)
    assert moved["version"] == AdminClient(other.admin).get(f"/topics/{topic}")["owner_version"]
    assert _owner(pair, topic) == (other.address, "alive")
    assert AdminClient(one.admin).ask("GET", f"/topics/{topic}").status == 404
    _publish(one, topic, b"second")
    assert AdminClient(other.admin).get(f"/topics/{topic}")["last_id"] == 2
    back = pair.admin.done("topic", "move", topic, one.address, "-o", "json").json
    assert (back["result"], back["owner"]) == ("moved", one.address)
    again = pair.admin.done("topic", "move", topic, one.address, "-o", "json").json
    assert (again["result"], again["version"]) == ("unchanged", back["version"])


def test_move_of_a_topic_that_is_read_takes_its_reader_along(pair: Pair, topic: str) -> None:
    """The reader returns at once: it waits at the old hub, which sends it to the new owner."""
    one, other = pair.hubs
    _claim(pair, topic, one)
    with BlockingClient(ClientOptions(hub=HubAddress.parse(one.address))) as client:
        opened = client.subscribe(Topic(topic.encode()), SubscriberId(b"reader"))
        for number, hub in enumerate((other, one, other)):
            client.publish(Topic(topic.encode()), b"%d" % number)
            assert next(opened).body == b"%d" % number
            pair.admin.done("topic", "move", topic, hub.address)
            assert _owner(pair, topic) == (hub.address, "alive")


def test_dry_run_of_a_move_says_what_would_be_done_and_changes_nothing(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    version = AdminClient(one.admin).get(f"/topics/{topic}")["owner_version"]
    would = pair.admin.done("topic", "move", topic, other.address, "--dry-run", "-o", "json").json
    assert would == {
        "topic": topic,
        "result": "would move",
        "from": one.address,
        "owner": other.address,
        "version": version,
    }
    assert AdminClient(one.admin).get(f"/topics/{topic}")["owner_version"] == version
    there = pair.admin.done("topic", "move", topic, one.address, "--dry-run", "-o", "json").json
    assert (there["result"], there["version"]) == ("unchanged", version)


def test_move_of_what_its_owner_has_not_taken_up_yet_goes_by_the_record(pair: Pair, topic: str) -> None:
    """As if the command was killed after one hub named the other the owner, and before the other was asked."""
    one, other = pair.hubs
    _claim(pair, topic, one)
    answer = AdminClient(one.admin).post(f"/release?topic={topic}&{_to(other)}")
    assert answer["owner"] == f"{other.address}:-1"
    assert _owner(pair, topic) == (other.address, "alive")
    assert AdminClient(other.admin).ask("GET", f"/topics/{topic}").status == 404
    moved = pair.admin.done("topic", "move", topic, one.address, "-o", "json").json
    assert (moved["result"], moved["from"]) == ("moved", other.address)
    assert _owner(pair, topic) == (one.address, "alive")


def test_topic_of_a_hub_that_is_not_in_the_cluster_any_more_is_deleted_without_force(pair: Pair, topic: str) -> None:
    one, _ = pair.hubs
    dead = f"{topic}/dead"
    _claim(pair, topic, one)
    pair.admin.done("topic", "create", dead)
    asyncio.run(_own(pair.cluster, dead, HubInfo.at(one.address, epoch=1)))
    alive = pair.admin.run("topic", "delete", topic, "--yes")
    assert (alive.code, f"it has the owner {one.address}; --force" in alive.err) == (ExitCode.FAILED, True)
    # Its metadata are in a ZooKeeper that does not say where its hubs are registered.
    unsure = pair.admin.run("topic", "delete", dead, "--yes", HEDWIG_CLUSTER="")
    assert (unsure.code, "not known for sure to be down" in unsure.err) == (ExitCode.FAILED, True)
    deleted = pair.admin.done("topic", "delete", dead, "--yes", "-o", "json").json
    assert (deleted["owner"], deleted["owner_state"]) == (one.address, "gone")
    pair.admin.done("topic", "delete", topic, "--yes", "--force")


def test_hub_that_is_named_by_another_serves_whoever_asks(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    _publish(one, topic, b"1")
    AdminClient(one.admin).post(f"/release?topic={topic}&{_to(other)}")
    _publish(one, topic, b"2")
    assert AdminClient(other.admin).get(f"/topics/{topic}")["last_id"] == 2


def test_hub_hands_nothing_over_to_one_that_does_not_live(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    admin = AdminClient(one.admin)
    for to in (f"to={other.address}:-1&epoch=1", "to=127.0.0.1:1:-1&epoch=7", _to(one)):
        answer = admin.ask("POST", f"/release?topic={topic}&{to}")
        assert (answer.status, answer.json["reason"]) == (409, "target"), answer
    assert admin.ask("POST", f"/release?topic={topic}&to={other.address}:-1").status == 400
    assert admin.get(f"/topics/{topic}")["state"] == "serving"


def test_claim_and_release_go_by_the_version_they_are_given(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    stale = AdminClient(one.admin).get(f"/topics/{topic}")["owner_version"]
    _claim(pair, topic, other)
    _claim(pair, topic, one)
    requests = (
        (one, f"/release?topic={topic}&version={stale}&{_to(other)}"),
        (other, f"/claim?topic={topic}&version={stale}"),
    )
    for hub, request in requests:
        answer = AdminClient(hub.admin).ask("POST", request)
        assert (answer.status, answer.json["reason"]) == (409, "version"), answer
    assert _owner(pair, topic) == (one.address, "alive")


def test_move_of_what_a_dead_hub_owns_takes_it_over(pair: Pair, topic: str) -> None:
    pair.admin.done("topic", "create", topic)
    asyncio.run(_own(pair.cluster, topic, HubInfo(host="127.0.0.1", port=9, epoch=7)))
    assert _owner(pair, topic) == ("127.0.0.1:9", "gone")
    other = pair.hubs[1]
    pair.admin.done("topic", "move", topic, other.address)
    assert _owner(pair, topic) == (other.address, "alive")


def test_move_to_a_drained_hub_is_refused_before_anything_is_released(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    pair.admin.done("hub", "drain", other.address, "--wait")
    try:
        ran = pair.admin.run("topic", "move", topic, other.address)
    finally:
        pair.admin.done("hub", "undrain", other.address)
    assert ran.code == ExitCode.FAILED
    assert "it is drained" in ran.err
    assert _owner(pair, topic) == (one.address, "alive")


def test_move_to_a_read_only_hub_is_refused_before_anything_is_released(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    AdminClient(other.admin).post("/read-only?state=on")
    try:
        for dry_run in ((), ("--dry-run",)):
            ran = pair.admin.run("topic", "move", topic, other.address, *dry_run)
            assert (ran.code, "read-only" in ran.err, len(ran.err.splitlines())) == (ExitCode.FAILED, True, 1), ran
    finally:
        AdminClient(other.admin).post("/read-only?state=off")
    assert AdminClient(one.admin).get(f"/topics/{topic}")["state"] == "serving"


def test_claim_of_what_another_hub_owns_says_who_that_is(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    answer = AdminClient(other.admin).ask("POST", f"/claim?topic={topic}")
    assert (answer.status, answer.json["reason"], answer.json["owner"]) == (409, "owned", f"{one.address}:-1")


def test_move_goes_by_the_version_of_the_owner_record(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    version = pair.admin.done("topic", "owner", topic, "--columns", "version", "--no-header").out.strip()
    pair.admin.done("topic", "move", topic, other.address, "--expected-version", version)
    ran = pair.admin.run("topic", "move", topic, one.address, "--expected-version", version)
    assert ran.code == ExitCode.VERSION_CONFLICT
    assert _owner(pair, topic) == (other.address, "alive")


def test_another_hub_than_the_owner_is_not_asked_in_its_place(pair: Pair, topic: str) -> None:
    """That hub would deny that it owns the topic. The command would then change the store behind the owner's back."""
    one, other = pair.hubs
    _claim(pair, topic, one)
    pair.admin.done("subscription", "create", topic, "reader")
    wrong = ("--admin", other.admin)
    for command in (("reset", "--to", "start"), ("delete", "--yes")):
        ran = pair.admin.run("subscription", command[0], topic, "reader", *command[1:], *wrong)
        assert ran.code == ExitCode.UNAVAILABLE, ran
        assert f"what answers at {other.admin} is hub {other.address}" in ran.err
    pair.admin.done("subscription", "reset", topic, "reader", "--to", "start", "--admin", one.admin)
    pair.admin.done("subscription", "delete", topic, "reader", "--yes")
    assert pair.admin.done("subscription", "list", topic, "-o", "ndjson").rows == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("topic", "move", "no-such", "ONE"), 3, ["no-such", "hedwig-admin topic list"]),
        (("topic", "move", "TOPIC", "127.0.0.1:1"), 3, ["127.0.0.1:1", "hedwig-admin hub list"]),
        (("topic", "move", "TOPIC", "ONE", "--target-admin", "127.0.0.1:1"), 6, ["127.0.0.1:1"]),
        (("topic", "move", "TOPIC", "ONE", "--target-admin", "OTHER-ADMIN"), 1, ["--target-admin HOST:PORT"]),
        (("hub", "load", "127.0.0.1:1"), 3, ["127.0.0.1:1", "hedwig-admin hub list"]),
        (("hub", "load", "--admin", "127.0.0.1:1"), 2, ["--admin goes with HUB"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    pair: Pair, topic: str, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    one, other = pair.hubs
    pair.admin.done("topic", "create", topic)
    names = {"ONE": one.address, "OTHER-ADMIN": other.admin, "TOPIC": topic}
    ran = pair.admin.run(*(names.get(word, word) for word in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    for word in words:
        assert word in ran.err


def test_example_of_move_runs(pair: Pair) -> None:
    pair.admin.done("topic", "create", "news")
    example = [word.replace("127.0.0.1:4080", pair.hubs[0].address) for word in example_of(("topic", "move"))]
    assert pair.admin.done(*example).out


# ------------------------------------------------------------------------------------------------------------ hub load


def test_load_of_all_hubs_and_of_one(pair: Pair, topic: str) -> None:
    one, other = pair.hubs
    _claim(pair, topic, one)
    rows = {row["hub"]: row for row in pair.admin.done("hub", "load", "-o", "ndjson").rows}
    assert set(rows) == {one.address, other.address}
    assert rows[one.address]["topics"] == len(AdminClient(one.admin).get("/topics?limit=10000")["topics"])
    (row,) = pair.admin.done("hub", "load", one.address, "-o", "ndjson").rows
    assert (row["hub"], row["channels"]) == (one.address, 0)
    assert row["publishes_per_s"] >= 0
    table = pair.admin.done("hub", "load").out.splitlines()
    assert table[0].split()[:2] == ["HUB", "TOPICS"]
    assert len(table) == 3


def test_load_of_a_hub_that_does_not_answer_is_no_number_and_an_error(pair: Pair) -> None:
    one = pair.hubs[0]
    ran = pair.admin.run("hub", "load", one.address, "--admin", "127.0.0.1:1", "-o", "ndjson")
    assert ran.code == ExitCode.UNAVAILABLE
    assert [(row["hub"], row["topics"]) for row in ran.rows] == [(one.address, None)]
    assert "127.0.0.1:1" in ran.err


# ------------------------------------------------------------------------------------------------- ledgers on bookies


def _seven_at(pair: Pair, hub: RunningHub, topic: str) -> list[str]:
    """Make a hub own a topic and take seven messages; return the options that name the bookies."""
    _claim(pair, topic, hub)
    _publish(hub, topic, *[b"%d" % number for number in range(1, 8)])
    return ["--bookkeeper", f"zookeeper://{pair.zookeeper}{LEDGERS_ROOT}"]


def _ids(pair: Pair, *arguments: str) -> list[int]:
    return [row["id"] for row in pair.admin.done(*arguments, "-o", "ndjson").rows if "id" in row]


def test_ledgers_on_bookies_are_read_while_their_hub_writes_them(pair: Pair, apart: str) -> None:
    """Reading never fences: the hub continues with the same ledger, and gives nothing up."""
    one = pair.hubs[0]
    bookies = _seven_at(pair, one, apart)
    (row,) = pair.admin.done("ledger", "list", apart, *bookies, "-o", "ndjson").rows
    assert (row["start"], row["end"], row["state"], row["stored_bytes"]) == (1, None, "open", None)
    seen = row["messages"]
    assert 1 <= seen <= 7  # Readers learn of the last ones only when others follow.
    assert _ids(pair, "ledger", "read", apart, *bookies) == list(range(1, seen + 1))
    assert _ids(pair, "message", "peek", apart) == list(range(1, 8))  # The hub knows them all.
    assert pair.admin.done("message", "count", apart, "-o", "json").json["messages"] == 7
    _publish(one, apart, b"8")
    view = AdminClient(one.admin).get(f"/topics/{apart}")
    assert ([each["ledger_id"] for each in view["ranges"]], view["last_id"]) == ([row["ledger_id"]], 8)
    assert "is given up" not in one.log


def test_closed_ledgers_on_bookies_are_read_to_their_end(pair: Pair, apart: str) -> None:
    one = pair.hubs[0]
    bookies = _seven_at(pair, one, apart)
    with BlockingClient(ClientOptions(hub=HubAddress.parse(one.address))) as client:
        client.subscribe(Topic(apart.encode()), SubscriberId(b"away")).close()
        client.publish(Topic(apart.encode()), b"8")
    pair.admin.done("topic", "release", apart)
    (row,) = pair.admin.done("ledger", "list", apart, *bookies, "-o", "ndjson").rows
    assert (row["start"], row["end"], row["state"], row["messages"]) == (1, 8, "closed", 8)
    assert row["stored_bytes"] > 8
    assert _ids(pair, "ledger", "read", apart, *bookies, "--from", "7") == [7, 8]
    assert _ids(pair, "message", "peek", apart, *bookies, "--limit", "2") == [1, 2]
    assert _ids(pair, "ledger", "read", "--ledger", str(row["ledger_id"]), *bookies) == list(range(1, 9))
    missing = pair.admin.run("ledger", "read", "--ledger", str(1 << 40), *bookies)
    assert (missing.code, "there is no ledger" in missing.err) == (ExitCode.NOT_FOUND, True)


def test_bookies_that_are_not_there_are_said_to_be_missing(pair: Pair, apart: str) -> None:
    _seven_at(pair, pair.hubs[0], apart)
    ran = pair.admin.run("ledger", "read", apart, "--bookkeeper", f"zookeeper://{pair.zookeeper}/no/such")
    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.USAGE, 1)
    assert "/no/such/LAYOUT" in ran.err
