"""Prove that a consume reports the stored pointer, and that reading something missing creates nothing."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran
from tests.cli.support.hub_and_admin import HubAndAdmin


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub for all tests that do not end it."""
    with HubAndAdmin(tmp_path_factory.mktemp("consumes")) as started:
        started.admin.environment["HEDWIG_HUB"] = started.hub.address
        yield started


@pytest.fixture
def topic(pair: HubAndAdmin) -> str:
    """A topic with two messages for a reader who is not attached."""
    name = f"consumes/{uuid.uuid4().hex}"
    pair.subscribe(name, "reader")
    pair.publish(name, b"one", b"two")
    return name


def _pointer(pair: HubAndAdmin, topic: str) -> int:
    consumed = pair.admin.done("subscription", "show", topic, "reader", "-o", "json").json["consumed"]
    assert isinstance(consumed, int)
    return consumed


def test_consume_says_where_the_pointer_stands(pair: HubAndAdmin, topic: str) -> None:
    done = pair.admin.done("consume", topic, "reader", "1", "-o", "json")
    assert (done.json, done.err) == ({"topic": topic, "subscriber": "reader", "consumed": 1}, "")


def test_consume_beyond_the_last_message_says_that_the_pointer_is_there(pair: HubAndAdmin, topic: str) -> None:
    done = pair.admin.done("consume", topic, "reader", "99", "-o", "json")
    assert done.json["consumed"] == _pointer(pair, topic) == 2
    assert "at 2" in done.err
    assert "message 99" in done.err
    assert len(done.err.splitlines()) == 1
    pair.publish(topic, b"three")
    assert pair.read(topic, "reader", 1) == [3], "what was not published then comes"


def test_consume_before_the_pointer_says_where_it_is(pair: HubAndAdmin, topic: str) -> None:
    pair.admin.done("consume", topic, "reader", "2")
    done = pair.admin.done("consume", topic, "reader", "1", "-o", "json")
    assert (done.json["consumed"], done.err) == (2, "")


@pytest.mark.parametrize("store", ["no such file", "other", "nonsense"])
def test_a_pointer_that_cannot_be_looked_up_is_not_guessed(
    pair: HubAndAdmin, topic: str, tmp_path: Path, store: str
) -> None:
    file = tmp_path / "store.db"
    if store == "other":
        Admin(tmp_path, f"sqlite://{file}").done("subscription", "create", topic, "reader", "--consumed", "7")
    url = "tape://nonsense" if store == "nonsense" else f"sqlite://{file}"
    done = pair.admin.done("consume", topic, "reader", "2", "-o", "json", "--metadata", url)
    assert (done.json["consumed"], "is not known" in done.err) == (None, True)
    assert _pointer(pair, topic) == 2
    assert file.exists() == (store == "other")


def test_the_console_does_not_say_of_what_it_sent_that_it_is_done(pair: HubAndAdmin, topic: str) -> None:
    script = f"sub {topic} reader attach false\nconsumeto {topic} reader 99\nclosesub {topic} reader\n"
    *_, sent, closed = pair.admin.done("console", "-o", "ndjson", text=script).rows
    assert sent == {"topic": topic, "subscriber": "reader", "result": "sent", "id": 99}
    assert closed["result"] == "closed"
    assert _pointer(pair, topic) == 2


# ------------------------------------------------------------------------------------------- what is not there


@pytest.mark.parametrize(
    "arguments",
    [
        ("consume", "TOPIC", "reader", "1"),
        ("subscribe", "TOPIC", "reader", "--mode", "attach"),
        ("unsubscribe", "TOPIC", "reader"),
        ("unsubscribe", "TOPIC", "reader", "--yes"),
        ("unsubscribe", "TOPIC", "reader", "--dry-run"),
        ("console", "sub", "TOPIC", "reader"),
        ("subscription", "show", "TOPIC", "reader"),
        ("subscription", "delete", "TOPIC", "reader", "--yes"),
        ("subscription", "reset", "TOPIC", "reader", "--to", "0", "--yes"),
        ("subscription", "lag", "TOPIC", "reader"),
    ],
    ids=" ".join,
)
def test_a_topic_that_is_not_there_is_not_made_by_who_asks_after_it(
    pair: HubAndAdmin, arguments: tuple[str, ...]
) -> None:
    name = f"nope/{uuid.uuid4().hex}"
    ran = _run(pair.admin, *(name if word == "TOPIC" else word for word in arguments))
    assert (ran.code, ran.out) == (ExitCode.NOT_FOUND, ""), ran
    assert f"there is no topic '{name}'; see what there is with: hedwig-admin topic list" in ran.err
    assert pair.admin.done("topic", "list", "--prefix", "nope/", "-o", "ndjson").rows == []


def _run(admin: Admin, *arguments: str) -> Ran:
    if arguments[0] == "console":
        return admin.run("console", text=" ".join(arguments[1:]) + "\n")
    return admin.run(*arguments)


def test_a_subscriber_of_a_topic_that_is_there_is_what_is_missing(pair: HubAndAdmin, topic: str) -> None:
    for arguments in (("subscription", "show"), ("subscription", "delete"), ("unsubscribe",)):
        ran = pair.admin.run(*arguments, topic, "nobody")
        assert ran.code == ExitCode.NOT_FOUND
        assert f"there is no subscriber 'nobody' on topic '{topic}'" in ran.err
        assert "[y/N]" not in ran.err


def test_who_unsubscribes_nobody_on_purpose_is_told_so(pair: HubAndAdmin, topic: str) -> None:
    for name in (topic, f"nope/{uuid.uuid4().hex}"):
        done = pair.admin.done("unsubscribe", name, "nobody", "--if-exists", "-o", "json").json
        assert done == {"topic": name, "subscriber": "nobody", "result": "absent"}
