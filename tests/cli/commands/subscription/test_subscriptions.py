"""Prove what the subscription commands do to the store, and what they report."""

import base64
from collections.abc import Sequence

import pytest

from tests.cli.support.admin import Admin


def test_create_keeps_every_preference(admin: Admin) -> None:
    admin.done(
        *("subscription", "create", "news", "reader", "--consumed", "12", "--message-bound", "100"),
        *("--message-window-size", "5", "--message-filter", "org.example.Filter"),
        *("--option", "colour=blue", "--option", "raw=\\xff=", "--option", "empty="),
    )
    shown = admin.done("subscription", "show", "news", "reader", "-o", "json").json
    assert shown.pop("version")
    assert shown == {
        "topic": "news",
        "subscriber": "reader",
        "consumed": 12,
        "message_bound": 100,
        "message_window_size": 5,
        "message_filter": "org.example.Filter",
        "options": {"colour": "blue", "empty": "", "raw": "\\xff=", "raw_base64": base64.b64encode(b"\xff=").decode()},
    }


def test_create_makes_the_topic_too_and_says_so(admin: Admin) -> None:
    first = admin.done("subscription", "create", "news", "a")
    assert "'news' did not exist" in first.err
    assert admin.done("subscription", "create", "news", "b").err == ""
    assert (admin.count("persistence"), admin.count("subscriptions")) == (1, 2)


def test_create_is_repeatable_on_request(admin: Admin) -> None:
    (first,) = admin.done("subscription", "create", "news", "a", "--consumed", "3", "-o", "ndjson").rows
    assert admin.run("subscription", "create", "news", "a").code == 4
    (again,) = admin.done("subscription", "create", "news", "a", "--if-not-exists", "-o", "ndjson").rows
    assert again == first | {"result": "existed"}
    assert admin.done("subscription", "show", "news", "a", "-o", "json").json["consumed"] == 3


@pytest.mark.parametrize(
    "chosen", [(), ("--prefix", "b"), ("--start-after", "b1"), ("--prefix", "\\xff"), ("--prefix", "zz")]
)
def test_list_takes_a_part(admin: Admin, chosen: Sequence[str]) -> None:
    names = [b"a", b"b1", b"b2", b"b\x00", b"c", b"\xff", b"\xff\xff"]
    for name in names:
        admin.done("subscription", "create", "news", "".join(f"\\x{byte:02x}" for byte in name))
    admin.done("subscription", "create", "news\\x00b", "neighbour")
    rows = admin.done("subscription", "list", "news", "-o", "ndjson", *chosen).rows
    listed = [base64.b64decode(row["subscriber_base64"]) if "subscriber_base64" in row else _name(row) for row in rows]
    wanted = {
        (): sorted(names),
        ("--prefix", "b"): [b"b\x00", b"b1", b"b2"],
        ("--start-after", "b1"): [b"b2", b"c", b"\xff", b"\xff\xff"],
        ("--prefix", "\\xff"): [b"\xff", b"\xff\xff"],
        ("--prefix", "zz"): [],
    }
    assert listed == wanted[tuple(chosen)]


def _name(row: dict[str, str]) -> bytes:
    return row["subscriber"].replace("\\x00", "\x00").encode()


def test_list_of_a_topic_without_subscriptions_is_empty_and_no_error(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    assert admin.done("subscription", "list", "news", "-o", "json").json == {
        "subscriptions": [],
        "next_page_token": None,
    }
    assert admin.done("subscription", "list", "news").out == "SUBSCRIBER  CONSUMED  VERSION\n"
