"""Prove that commands change and measure subscriptions where it has an effect: at the owner, or in the store."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from hedwig.client import BlockingSubscription
from hedwig.errors import SubscriptionClosedError
from hedwig.exit_codes import ExitCode
from hedwig.model import SubscriberId, Topic
from hedwig.versions import Version
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.hub.support.admin_client import AdminClient

OTHER = str(Version(b"s" + bytes(25)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that do not end it."""
    with HubAndAdmin(tmp_path_factory.mktemp("changes")) as started:
        yield started


@pytest.fixture
def topic() -> str:
    return f"changes/{uuid.uuid4().hex}"


def _five(pair: HubAndAdmin, topic: str, consumed: int = 3) -> None:
    """Publish five messages, of which a reader who is gone has consumed some."""
    pair.subscribe(topic, "reader")
    pair.publish(topic, *[b"m"] * 5)
    assert pair.read(topic, "reader", consumed) == list(range(1, consumed + 1))


def _stored(admin: Admin, topic: str, subscriber: str = "reader") -> int:
    consumed = admin.done("subscription", "show", topic, subscriber, "-o", "json").json["consumed"]
    assert isinstance(consumed, int)
    return consumed


def _version(admin: Admin, topic: str) -> str:
    return admin.done("subscription", "show", topic, "reader", "--columns", "version", "--no-header").out.strip()


# --------------------------------------------------------------------------------------------------------------- reset


@pytest.mark.parametrize("verb", ["reset", "seek"])
@pytest.mark.parametrize(
    ("to", "consumed", "ids"), [("1", 1, [2, 3, 4, 5]), ("start", 0, [1, 2]), ("0", 0, [1]), ("4", 4, [5])]
)
def test_reset_goes_through_the_hub_that_owns_the_topic(
    pair: HubAndAdmin, topic: str, verb: str, to: str, consumed: int, ids: list[int]
) -> None:
    _five(pair, topic)
    moved = pair.admin.done("subscription", verb, topic, "reader", "--to", to, "--yes", "-o", "json").json
    assert moved == {
        "topic": topic,
        "subscriber": "reader",
        "result": "moved",
        "was": 3,
        "consumed": consumed,
        "next_id": consumed + 1,
        "version": _version(pair.admin, topic),
    }
    assert pair.read(topic, "reader", len(ids)) == ids


def test_reset_to_the_end_skips_all_and_asks_first(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    refused = pair.admin.run("subscription", "reset", topic, "reader", "--to", "end", text="n\n")
    assert refused.code == ExitCode.FAILED
    assert "skips 2 messages" in refused.err
    assert _stored(pair.admin, topic) == 3
    moved = pair.admin.done("subscription", "reset", topic, "reader", "--to", "end", "-o", "json", text="y\n").json
    assert (moved["was"], moved["consumed"], moved["next_id"]) == (3, 5, 6)


def test_reset_of_a_topic_that_nobody_owns_is_a_write_to_the_store(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    pair.admin.done("topic", "release", topic)
    moved = pair.admin.done("subscription", "reset", topic, "reader", "--to", "1", "-o", "json").json
    assert (moved["was"], moved["consumed"], moved["version"]) == (3, 1, _version(pair.admin, topic))
    assert AdminClient(pair.hub.admin).ask("GET", f"/topics/{topic}").status == 404
    assert pair.read(topic, "reader", 2) == [2, 3]


def test_dry_run_says_where_the_pointer_would_stand(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    would = pair.admin.done("subscription", "reset", topic, "reader", "--to", "end", "--dry-run", "-o", "json").json
    assert (would["result"], would["was"], would["consumed"]) == ("would move", 3, 5)
    assert (would["version"], _stored(pair.admin, topic)) == (_version(pair.admin, topic), 3)


def test_every_change_goes_by_the_version_that_was_given(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    for owned in (True, False):
        version = _version(pair.admin, topic)
        moved = pair.admin.done(
            "subscription", "reset", topic, "reader", "--to", "1", "--expected-version", version, "-o", "json"
        ).json
        refused = pair.admin.run("subscription", "reset", topic, "reader", "--to", "0", "--expected-version", version)
        assert refused.code == ExitCode.VERSION_CONFLICT
        assert moved["version"] in refused.err
        assert "consume pointer 1" in refused.err
        refused = pair.admin.run("subscription", "delete", topic, "reader", "--yes", "--expected-version", version)
        assert refused.code == ExitCode.VERSION_CONFLICT
        if owned:
            pair.admin.done("topic", "release", topic)
    version = _version(pair.admin, topic)
    pair.admin.done("subscription", "delete", topic, "reader", "--yes", "--expected-version", version)


def test_what_somebody_has_open_is_left_alone_unless_forced(pair: HubAndAdmin, topic: str) -> None:
    pair.publish(topic, b"m")
    with pair.client() as client:
        opened = client.subscribe(Topic(topic.encode()), SubscriberId(b"reader"))
        for _ in range(3):
            client.publish(Topic(topic.encode()), b"m")
        assert next(opened).body == b"m"
        for command in (("reset", "--to", "0"), ("delete", "--yes"), ("delete", "--dry-run")):
            refused = pair.admin.run("subscription", command[0], topic, "reader", *command[1:])
            assert refused.code == ExitCode.FAILED, refused
            assert "--force" in refused.err
        ended = _end_of(opened)
        moved = pair.admin.done("subscription", "reset", topic, "reader", "--to", "0", "--force", "-o", "json").json
        assert moved["consumed"] == 0
        assert isinstance(ended(), SubscriptionClosedError)
        assert _stored(pair.admin, topic) == 0

        again = client.subscribe(Topic(topic.encode()), SubscriberId(b"reader"))
        assert [next(again).seq_id.local for _ in range(4)] == [1, 2, 3, 4]
        ended = _end_of(again)
        deleted = pair.admin.done("subscription", "delete", topic, "reader", "--yes", "--force", "-o", "json").json
        assert deleted["result"] == "deleted"
        assert isinstance(ended(), SubscriptionClosedError)
    assert pair.admin.run("subscription", "show", topic, "reader").code == ExitCode.NOT_FOUND


def _end_of(opened: BlockingSubscription) -> Callable[[], Exception]:
    """Read a subscription to its end in another thread; return a function that reports how it ended."""
    ends: list[Exception] = []

    def read() -> None:
        try:
            for _ in opened:
                pass
        except SubscriptionClosedError as exc:
            ends.append(exc)

    thread = Thread(target=read, daemon=True)
    thread.start()

    def end() -> Exception:
        thread.join(60)
        assert ends, "it was told that it lost the subscription"
        return ends[0]

    return end


def test_a_hub_that_cannot_be_asked_is_not_gone_round_unless_it_is_said_to_be_down(
    pair: HubAndAdmin, topic: str
) -> None:
    _five(pair, topic)
    elsewhere = ("--admin", "127.0.0.1:1")
    for command in (("reset", "--to", "0"), ("delete", "--yes")):
        refused = pair.admin.run("subscription", command[0], topic, "reader", *command[1:], *elsewhere)
        assert refused.code == ExitCode.UNAVAILABLE
        assert "--offline" in refused.err
    assert _stored(pair.admin, topic) == 3
    pair.admin.done("subscription", "reset", topic, "reader", "--to", "0", "--offline", *elsewhere)
    assert _stored(pair.admin, topic) == 0


def test_reset_where_a_killed_hub_left_a_ledger_open_does_not_guess_its_end(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        _five(pair, "news", consumed=2)
        pair.hub.kill()
        for to in ("end", "4"):
            refused = pair.admin.run("subscription", "reset", "news", "reader", "--to", to, "--yes")
            assert refused.code == ExitCode.FAILED
            assert "left ledger 4294967296 open" in refused.err
        lag = pair.admin.done("subscription", "lag", "news", "-o", "json")
        assert lag.json["subscriptions"][0]["lag_messages"] is None
        assert "was left open" in lag.err
        assert (
            pair.admin.done("subscription", "reset", "news", "reader", "--to", "start", "-o", "json").json["consumed"]
            == 0
        )
        pair.start()
        assert pair.read("news", "reader", 5) == [1, 2, 3, 4, 5]


# -------------------------------------------------------------------------------------------------------------- delete


def test_delete_says_what_is_lost_and_asks(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    refused = pair.admin.run("subscription", "delete", topic, "reader", text="n\n")
    assert refused.code == ExitCode.FAILED
    assert "2 messages that it has not consumed" in refused.err
    would = pair.admin.done("subscription", "delete", topic, "reader", "--dry-run", "-o", "json").json
    assert (would["result"], would["lag_messages"]) == ("would delete", 2)
    version = _version(pair.admin, topic)
    deleted = pair.admin.done("subscription", "delete", topic, "reader", "-o", "json", text="y\n").json
    assert (deleted["result"], deleted["lag_messages"], deleted["version"]) == ("deleted", 2, version)
    assert AdminClient(pair.hub.admin).get(f"/lag?topic={topic}")["count"] == 0
    absent = pair.admin.done("subscription", "delete", topic, "reader", "--if-exists", "-o", "json").json
    assert absent["result"] == "absent"
    assert pair.admin.run("subscription", "delete", topic, "reader").code == ExitCode.NOT_FOUND


def test_delete_without_a_hub_is_a_write_to_the_store(admin: Admin) -> None:
    admin.done("subscription", "create", "news", "reader")
    admin.done("subscription", "create", "news", "other")
    admin.done("subscription", "delete", "news", "reader", "--yes")
    assert [row["subscriber"] for row in admin.done("subscription", "list", "news", "-o", "ndjson").rows] == ["other"]


def test_delete_of_what_somebody_else_deletes_while_it_asks_finds_it_absent(admin: Admin) -> None:
    for options, code, said in ((("--if-exists",), ExitCode.DONE, "absent"), ((), ExitCode.NOT_FOUND, "there is no")):
        admin.done("subscription", "create", "news", "reader")
        with admin.start("subscription", "delete", "news", "reader", *options) as asking:
            assert asking.stderr is not None
            question = b""
            while not question.endswith(b"[y/N] "):
                question += (byte := asking.stderr.read(1))
                assert byte, question
            admin.done("subscription", "delete", "news", "reader", "--yes")
            out, err = asking.communicate(b"y\n", timeout=60)
        assert (asking.returncode, said in (out + err).decode()) == (code, True), (out, err)


# ----------------------------------------------------------------------------------------------------------------- lag


def test_lag_is_what_the_owner_says(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    pair.admin.done("subscription", "create", topic, "\\xff", "--consumed", "1")
    rows = pair.admin.done("subscription", "lag", topic, "-o", "ndjson").rows
    assert rows == [
        {"subscriber": "reader", "consumed": 3, "last_id": 5, "lag_messages": 2, "attached": False},
        {
            "subscriber": "\\xff",
            "subscriber_base64": "/w==",
            "consumed": 1,
            "last_id": 5,
            "lag_messages": 4,
            "attached": False,
        },
    ]
    assert pair.admin.done("subscription", "lag", topic, "reader", "-o", "ndjson").rows == rows[:1]
    assert pair.admin.run("subscription", "lag", topic, "nobody").code == ExitCode.NOT_FOUND


def test_lag_of_a_topic_that_nobody_owns_is_what_the_store_says(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    pair.admin.done("topic", "release", topic)
    (row,) = pair.admin.done("subscription", "lag", topic, "-o", "ndjson").rows
    assert (row["consumed"], row["last_id"], row["lag_messages"], row["attached"]) == (3, 5, 2, None)
    assert pair.admin.done("subscription", "lag", topic, "reader", "-o", "ndjson").rows == [row]
    assert pair.admin.run("subscription", "lag", topic, "nobody").code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("owned", [True, False])
def test_lag_comes_page_by_page_with_a_prefix_and_a_token(pair: HubAndAdmin, topic: str, owned: bool) -> None:
    names = [f"{letter}{number}" for letter in "ab" for number in range(4)]
    for name in (*names, "c"):
        pair.admin.done("subscription", "create", topic, name)
    if owned:
        pair.publish(topic, b"m")

    def page(*arguments: str) -> tuple[list[str], str | None]:
        listing = pair.admin.done("subscription", "lag", topic, "-o", "json", *arguments).json
        return [row["subscriber"] for row in listing["subscriptions"]], listing["next_page_token"]

    assert page() == ([*names, "c"], None)
    assert page("--prefix", "b") == (names[4:], None)
    first, token = page("--limit", "5")
    assert (first, bool(token)) == (names[:5], True)
    assert page("--page-token", str(token)) == ([*names[5:], "c"], None)
    assert page("--start-after", "b2", "--all") == (["b3", "c"], None)


def test_lag_goes_on_while_messages_come(pair: HubAndAdmin, topic: str) -> None:
    _five(pair, topic)
    pair.publish(topic, b"m", b"m")
    wait_until(
        lambda: pair.admin.done("subscription", "lag", topic, "reader", "-o", "ndjson").rows[0]["lag_messages"] == 4,
        "it grows",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("reset", "TOPIC", "reader"), 2, ["--to"]),
        (("reset", "TOPIC", "reader", "--to", "begin"), 2, ["'begin'", "start or end"]),
        (("reset", "TOPIC", "reader", "--to", "6"), 2, ["no message 6 yet", "--to end"]),
        (("reset", "TOPIC", "nobody", "--to", "0"), 3, ["nobody", "hedwig-admin subscription list"]),
        (("reset", "TOPIC", "reader", "--to", "0", "--expected-version", OTHER), 4, ["version", "consume pointer 3"]),
        (("delete", "TOPIC", "nobody"), 3, ["nobody", "hedwig-admin subscription list"]),
        (("lag", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    pair: HubAndAdmin, topic: str, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    _five(pair, topic)
    ran = pair.admin.run("subscription", *(topic if word == "TOPIC" else word for word in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("error: ")
    for word in words:
        assert word in ran.err
