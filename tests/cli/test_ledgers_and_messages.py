"""Prove that commands show and count messages and ledgers beside a hub, which notices nothing."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.hub.support.admin_client import AdminClient


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that do not end it; its ledgers take three messages each."""
    with HubAndAdmin(tmp_path_factory.mktemp("ledgers"), "ledger_messages_max=3", "repeat_window_s=0") as started:
        yield started


@pytest.fixture
def topic() -> str:
    return f"ledgers/{uuid.uuid4().hex}"


def _seven(pair: HubAndAdmin, topic: str) -> None:
    """Publish seven messages beside a subscription that consumes none."""
    pair.subscribe(topic, "reader")
    pair.publish(topic, *[b"%d" % number for number in range(1, 8)])


def _ids(admin: Admin, *arguments: str) -> list[int]:
    return [row["id"] for row in admin.done(*arguments, "-o", "ndjson").rows if "id" in row]


def _pages(admin: Admin, field: str, *arguments: str) -> list[list[int]]:
    """Return a field of all pages of a listing, following the page tokens."""
    pages: list[list[int]] = []
    token: tuple[str, ...] = ()
    while True:
        page = admin.done(*arguments, *token, "-o", "json").json
        rows = next(iter(page.values()))
        pages.append([row[field] for row in rows])
        if page["next_page_token"] is None:
            return pages
        token = ("--page-token", page["next_page_token"])


# ------------------------------------------------------------------------------------------------------------- ledgers


def test_list_shows_which_ledger_holds_what(pair: HubAndAdmin, topic: str) -> None:
    _seven(pair, topic)
    rows = pair.admin.done("ledger", "list", topic, "-o", "ndjson").rows
    assert [(row["start"], row["end"], row["state"], row["messages"]) for row in rows] == [
        (1, 3, "closed", 3),
        (4, 6, "closed", 3),
        (7, None, "open", 1),
    ]
    view = AdminClient(pair.hub.admin).get(f"/topics/{topic}")
    assert [row["ledger_id"] for row in rows] == [each["ledger_id"] for each in view["ranges"]]
    assert all(row["stored_bytes"] > 0 for row in rows)
    pair.publish(topic, b"8")  # The command fenced nothing: the hub continues with the same ledger.
    again = pair.admin.done("ledger", "list", topic, "-o", "ndjson").rows
    assert [row["ledger_id"] for row in again] == [row["ledger_id"] for row in rows]
    assert again[-1]["messages"] == 2


def test_list_does_without_the_ledgers_where_they_cannot_be_read(pair: HubAndAdmin, topic: str) -> None:
    _seven(pair, topic)
    ran = pair.admin.run("ledger", "list", topic, "-o", "ndjson", HEDWIG_DATA="")
    assert (ran.code, "--data DIR" in ran.err) == (0, True)
    assert [(row["state"], row["messages"], row["stored_bytes"]) for row in ran.rows] == [
        ("closed", 3, None),
        ("closed", 3, None),
        ("open", None, None),
    ]


def test_list_tells_ledgers_that_are_missing_and_emptied(pair: HubAndAdmin, topic: str, tmp_path: Path) -> None:
    _seven(pair, topic)
    (tmp_path / "elsewhere" / "ledgers").mkdir(parents=True)
    rows = pair.admin.done("ledger", "list", topic, "--data", str(tmp_path / "elsewhere"), "-o", "ndjson").rows
    assert [row["state"] for row in rows] == ["missing"] * 3
    pair.read(topic, "reader", 7)
    pair.admin.done("topic", "release", topic)
    (row,) = pair.admin.done("ledger", "list", topic, "-o", "ndjson").rows
    assert (row["state"], row["messages"], row["stored_bytes"]) == ("emptied", 0, None)
    assert _ids(pair.admin, "ledger", "read", topic) == []
    assert _ids(pair.admin, "message", "peek", topic) == []
    counted = pair.admin.done("message", "count", topic, "-o", "json").json
    assert (counted["messages"], counted["first_id"], counted["last_id"]) == (0, 8, 7)


def test_read_writes_entries_as_messages(pair: HubAndAdmin, topic: str) -> None:
    _seven(pair, topic)
    rows = pair.admin.done("ledger", "read", topic, "-o", "ndjson").rows
    assert [row["id"] for row in rows] == list(range(1, 8))
    assert [row["entry_id"] for row in rows] == [0, 1, 2, 0, 1, 2, 0]
    assert rows[3] == {
        "ledger_id": rows[3]["ledger_id"],
        "entry_id": 0,
        "id": 4,
        "body": "4",
        "properties": {},
        "message_type": None,
        "source_region": "standalone",
    }
    assert _ids(pair.admin, "ledger", "read", topic, "--from", "3", "--limit", "3") == [3, 4, 5]
    one = str(rows[3]["ledger_id"])
    assert _ids(pair.admin, "ledger", "read", "--ledger", one) == [4, 5, 6]
    assert _ids(pair.admin, "ledger", "read", "--ledger", one, "--from", "1", "--limit", "1") == [5]
    assert pair.admin.done("ledger", "read", topic, "--limit", "1").out.splitlines()[0].split()[:3] == [
        "LEDGER_ID",
        "ENTRY_ID",
        "ID",
    ]


def test_listings_that_are_cut_go_on_by_their_tokens(pair: HubAndAdmin, topic: str) -> None:
    _seven(pair, topic)
    ledgers = [row["ledger_id"] for row in pair.admin.done("ledger", "list", topic, "-o", "ndjson").rows]
    listed = _pages(pair.admin, "ledger_id", "ledger", "list", topic, "--limit", "2")
    assert listed == [ledgers[:2], ledgers[2:]]
    after = pair.admin.done("ledger", "list", topic, "--start-after", str(ledgers[1]), "-o", "ndjson").rows
    assert [row["ledger_id"] for row in after] == ledgers[2:]
    nowhere = pair.admin.run("ledger", "list", topic, "--start-after", "7")
    assert (nowhere.code, "has no ledger 7" in nowhere.err) == (ExitCode.NOT_FOUND, True)
    assert pair.admin.run("ledger", "list", topic, "--start-after", "x").code == ExitCode.USAGE
    one = ("ledger", "read", "--ledger", str(ledgers[0]))
    assert _pages(pair.admin, "entry_id", *one, "--limit", "2") == [[0, 1], [2]]
    for where in ("hub", "ledgers"):
        for command in (("message", "peek"), ("ledger", "read")):
            assert _pages(pair.admin, "id", *command, topic, "--limit", "3") == [[1, 2, 3], [4, 5, 6], [7]], where
            assert _pages(pair.admin, "id", *command, topic, "--all") == [list(range(1, 8))]
        pair.admin.done("topic", "release", topic)
    more = pair.admin.done("message", "peek", topic, "--limit", "3")
    assert more.err == "more: give --page-token 4, or --all\n"
    assert pair.admin.run("message", "peek", topic, "--limit", "3", "--all").code == ExitCode.USAGE


def test_ledgers_of_a_killed_hub_are_read_and_recovered_by_it_all_the_same(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        _seven(pair, "news")
        pair.hub.kill()
        (row,) = pair.admin.done("ledger", "list", "news", "-o", "ndjson").rows
        assert (row["state"], row["end"], row["messages"]) == ("open", None, 7)
        assert _ids(pair.admin, "ledger", "read", "news") == list(range(1, 8))
        assert _ids(pair.admin, "message", "peek", "news", "--from", "6") == [6, 7]
        counted = pair.admin.done("message", "count", "news", "-o", "json").json
        assert (counted["messages"], counted["messages_at_least"], counted["last_id"]) == (None, 7, None)
        pair.start()
        assert pair.read("news", "reader", 7) == list(range(1, 8))
        pair.publish("news", b"8")
        assert pair.admin.done("message", "count", "news", "-o", "json").json["last_id"] == 8


# ------------------------------------------------------------------------------------------------------------ messages


@pytest.mark.parametrize("through", ["hub", "ledgers"])
def test_peek_consumes_nothing(pair: HubAndAdmin, topic: str, through: str) -> None:
    _seven(pair, topic)
    if through == "ledgers":
        pair.admin.done("topic", "release", topic)
    rows = pair.admin.done("message", "peek", topic, "-o", "ndjson").rows
    assert [(row["id"], row["body"]) for row in rows] == [(number, str(number)) for number in range(1, 8)]
    assert _ids(pair.admin, "message", "peek", topic, "--from", "5", "--limit", "2") == [5, 6]
    assert _ids(pair.admin, "message", "peek", topic, "--from", "8") == []
    assert pair.admin.done("subscription", "show", topic, "reader", "-o", "json").json["consumed"] == 0
    assert pair.read(topic, "reader", 7) == list(range(1, 8))


def test_peek_at_a_hub_goes_on_over_many_pages(pair: HubAndAdmin, topic: str) -> None:
    lines = "".join(f"{number}\n" for number in range(600))
    assert pair.admin.run("publish", topic, HEDWIG_HUB=pair.hub.address, text=lines).code == 0
    assert _ids(pair.admin, "message", "peek", topic, "--limit", "550") == list(range(1, 551))
    assert _ids(pair.admin, "ledger", "read", topic, "--limit", "550") == list(range(1, 551))


def test_count_is_that_of_the_hub_or_of_the_record(pair: HubAndAdmin, topic: str) -> None:
    _seven(pair, topic)
    owned = pair.admin.done("message", "count", topic, "-o", "json").json
    assert (owned["messages"], owned["first_id"], owned["last_id"], owned["ledgers"]) == (7, 1, 7, 3)
    assert owned["open_ledger"] is not None
    pair.admin.done("topic", "release", topic)
    assert pair.admin.done("message", "count", topic, "-o", "json").json == owned | {
        "messages_at_least": 7,
        "open_ledger": None,
    }


def test_bytes_that_are_no_text_are_shown_as_everywhere(pair: HubAndAdmin, topic: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\n\\")
    assert pair.admin.run("publish", topic, "--file", str(tmp_path / "binary"), HEDWIG_HUB=pair.hub.address).code == 0
    for command in (("message", "peek"), ("ledger", "read")):
        (row,) = pair.admin.done(*command, topic, "-o", "ndjson").rows
        assert row["body_base64"] == "/wpc"
        assert "\\xff\\x0a\\\\" in pair.admin.done(*command, topic).out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ledger", "list", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("ledger", "read", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("ledger", "read"), 2, ["TOPIC or --ledger"]),
        (("ledger", "read", "TOPIC", "--ledger", "1"), 2, ["TOPIC or --ledger"]),
        (("ledger", "read", "--ledger", "1"), 3, ["there is no ledger 1 in", "--data"]),
        (("ledger", "read", "TOPIC", "--data", "/no/such"), 2, ["--data", "/no/such"]),
        (("ledger", "list", "TOPIC", "--data", "EMPTY"), 2, ["there are no ledgers in", "--data DIR"]),
        (("ledger", "read", "TOPIC", "--bookkeeper", "nonsense"), 2, ["zookeeper://host:2181/ledgers"]),
        (
            ("ledger", "read", "TOPIC", "--data", "EMPTY", "--bookkeeper", "x"),
            2,
            ["flag gives both data"],
        ),
        (
            ("ledger", "list", "TOPIC", "--bookkeeper", "zookeeper://127.0.0.1:1/ledgers", "--timeout", "1"),
            6,
            ["127.0.0.1:1"],
        ),
        (("message", "peek", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
        (("message", "count", "no-such"), 3, ["no-such", "hedwig-admin topic list"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    pair: HubAndAdmin, topic: str, tmp_path: Path, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    pair.publish(topic, b"m")
    names = {"TOPIC": topic, "EMPTY": str(tmp_path)}
    ran = pair.admin.run(*(names.get(word, word) for word in arguments), "-o", "ndjson")
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("error: ")
    for word in words:
        assert word in ran.err


def test_damage_is_named_and_what_is_before_it_is_not_held_back(tmp_path: Path) -> None:
    with HubAndAdmin(tmp_path) as pair:
        pair.publish("news", b"sound", b"damaged" * 20)
        pair.hub.stop()
        (segment, *_) = (
            each for each in (pair.hub.data / "ledgers").glob("*.segment") if b"damaged" in each.read_bytes()
        )
        data = bytearray(segment.read_bytes())
        data[data.index(b"damaged") + 3] ^= 1
        segment.write_bytes(data)
        ran = pair.admin.run("ledger", "read", "news", "-o", "ndjson")
        assert ran.code == ExitCode.FAILED
        assert "entry 1 of ledger" in ran.err
        assert [row["body"] for row in ran.rows] == ["sound"]
        assert _ids(pair.admin, "message", "peek", "news", "--limit", "1") == [1]
