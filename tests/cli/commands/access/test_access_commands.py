"""The commands `hedwig-admin access …`: what they change, what they show, and what they refuse."""

import asyncio

import pytest

from hedwig.access import Pattern
from hedwig.exit_codes import ExitCode
from hedwig.metadata import open_metadata
from hedwig.metadata.access.count_records import Counted, CountKey, CountRecords
from hedwig.model import HubInfo
from tests.cli.support.admin import Admin

SHOP = ("group:shop", "publish,create", "orders/*")


def test_rules_are_added_listed_and_removed(admin: Admin) -> None:
    added = admin.done("access", "allow", *SHOP, "-o", "json").json
    assert (added["result"], added["version"]) == ("added", 1)
    assert admin.done("access", "allow", *SHOP, "-o", "json").json["result"] == "present"
    admin.done("access", "allow", "*", "subscribe", r"caf\xc3\xa9\x20\x2a/{user}/*", "--as", "{user}*")
    assert admin.done("access", "list", "-o", "ndjson").rows == [
        {
            "effect": "allow",
            "who": "*",
            "actions": "subscribe",
            "topics": r"café\x20\x2a/{user}/*",
            "as": "{user}*",
            "version": 1,
        },
        {
            "effect": "allow",
            "who": "group:shop",
            "actions": "publish,create",
            "topics": "orders/*",
            "as": None,
            "version": 1,
        },
    ]
    assert len(admin.done("access", "list", "*", "-o", "ndjson").rows) == 1
    assert admin.done("access", "revoke", "allow", *SHOP, "-o", "json").json["result"] == "removed"
    assert admin.done("access", "list", "group:shop", "-o", "ndjson").rows == []
    assert admin.run("access", "revoke", "allow", *SHOP).code == ExitCode.NOT_FOUND
    assert admin.done("access", "revoke", "allow", *SHOP, "--if-exists", "-o", "json").json["result"] == "absent"


def test_a_limit_is_set_replaced_listed_and_removed(admin: Admin) -> None:
    limit = ("access", "limit", "group:shop")
    assert admin.done(*limit, "publishes_per_s=10", "orders/*", "-o", "json").json["result"] == "set"
    assert admin.done(*limit, "publishes_per_s=10", "orders/*", "-o", "json").json["result"] == "present"
    admin.done(*limit, "publishes_per_s=1", "*")
    dry = admin.done(*limit, "publish_bytes_per_s=20MiB", "orders/*", "--dry-run", "-o", "json").json
    assert dry["result"] == "would set"
    replaced = admin.done(*limit, "publish_bytes_per_s=20MiB", "orders/*", "-o", "json").json
    assert replaced == {
        "effect": "limit",
        "who": "group:shop",
        "actions": "publish_bytes_per_s=20MiB",
        "topics": "orders/*",
        "as": None,
        "version": 3,
        "result": "set",
    }
    text = admin.done("access", "export").out
    assert text == "limit group:shop publishes_per_s=1 *\nlimit group:shop publish_bytes_per_s=20MiB orders/*\n"
    revoke = ("access", "revoke", "limit", "group:shop")
    assert admin.run(*revoke, "publishes_per_s=10", "orders/*").code == ExitCode.NOT_FOUND
    assert admin.done(*revoke, "publishes_per_s=1", "*", "-o", "json").json["result"] == "removed"
    assert admin.done("access", "import", "-", "--yes", text=text).code == 0
    assert admin.done("access", "export").out == text


def test_a_long_list_goes_on_where_it_was_cut(admin: Admin) -> None:
    for number in range(3):
        admin.done("access", "allow", "group:shop", "publish", f"orders/{number}")
    admin.done("access", "allow", "user:ann", "publish", "orders/3")
    cut = admin.done("access", "list", "--limit", "2", "-o", "json").json
    assert [rule["topics"] for rule in cut["rules"]] == ["orders/0", "orders/1"]
    rest = admin.done("access", "list", "--page-token", cut["next_page_token"], "-o", "ndjson").rows
    assert [rule["topics"] for rule in rest] == ["orders/2", "orders/3"]
    assert admin.done("access", "list", "--start-after", "group:shop", "-o", "ndjson").rows == rest[1:]
    assert admin.done("access", "list", "--prefix", "user:", "-o", "ndjson").rows == rest[1:]


def test_a_dry_run_changes_nothing(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    assert admin.done("access", "allow", *SHOP, "--dry-run", "-o", "json").json["result"] == "would add"
    assert admin.done("access", "list", "-o", "ndjson").rows == []


def test_a_change_that_others_came_before_is_refused(admin: Admin) -> None:
    admin.done("access", "allow", *SHOP, "--expected-version", "0")
    ran = admin.run("access", "deny", *SHOP, "--expected-version", "0")
    assert (ran.code, "have version 1, not 0" in ran.err) == (ExitCode.VERSION_CONFLICT, True)


def test_check_names_the_rule(admin: Admin) -> None:
    admin.done("access", "allow", *SHOP)
    admin.done("access", "allow", "user:ann", "subscribe", "orders/*", "--as", "ann")
    asked = ("access", "check", "ann", "publish", "orders/1", "-o", "json")
    allowed = admin.done(*asked, "--group", "shop").json
    assert (allowed["allowed"], allowed["rule"]) == (True, "allow group:shop publish,create orders/*")
    denied = admin.done(*asked).json
    assert (denied["allowed"], denied["rule"]) == (False, None)
    for subscriber, expected in (("ann", True), ("bob", False)):
        ran = admin.done("access", "check", "user:ann", "subscribe", "orders/1", "--as", subscriber, "-o", "json")
        assert ran.json["allowed"] is expected


def test_rules_go_through_a_file(admin: Admin) -> None:
    admin.done("access", "allow", *SHOP)
    admin.done("access", "allow", "user:ann", "publish", r"a\x20b\xff*")
    text = admin.done("access", "export").out
    assert text == "allow group:shop publish,create orders/*\nallow user:ann publish a\\x20b\\xff*\n"
    file = admin.directory / "rules.txt"
    file.write_text("# reviewed\n\nallow group:shop publish orders/*\nallow user:ann publish a\\x20b\\xff*\n")
    dry = admin.done("access", "import", str(file), "--dry-run", "-o", "ndjson").rows
    assert dry == [
        {"change": "would remove", "rule": "allow group:shop publish,create orders/*"},
        {"change": "would add", "rule": "allow group:shop publish orders/*"},
    ]
    assert admin.run("access", "import", str(file), text="n\n").code == ExitCode.FAILED
    assert admin.done("access", "export").out == text
    assert len(admin.done("access", "import", str(file), "--yes", "-o", "ndjson").rows) == 2
    assert admin.done("access", "import", str(file), "-o", "ndjson").rows == []
    assert admin.done("access", "export").out == file.read_text().partition("\n\n")[2]
    assert admin.done("access", "import", "-", "--yes", text=text).code == 0
    assert admin.done("access", "export").out == text


def test_a_file_with_a_line_that_is_no_rule_changes_nothing(admin: Admin) -> None:
    admin.done("access", "allow", *SHOP)
    file = admin.directory / "rules.txt"
    file.write_text("allow * publish t\nallow everything\n")
    ran = admin.run("access", "import", str(file), "--yes")
    assert ran.code == ExitCode.USAGE
    assert "line 2" in ran.err
    assert len(admin.done("access", "list", "-o", "ndjson").rows) == 1


def test_counts_are_listed_and_counted_anew(admin: Admin) -> None:
    key = CountKey(Counted.TOPICS, Pattern.parse("shop/*"))
    dead = HubInfo(host="hub", port=4080, epoch=1)

    async def count() -> None:
        async with await open_metadata(admin.url) as store:
            counts = CountRecords(store.named_records)

            async def nothing() -> int:
                return 0

            async def nobody(_: HubInfo) -> bool:
                return False

            await counts.count_anew(key, nothing, nobody, 0.0)
            assert await counts.lease(key, dead, has=0, most=100) == 10

    asyncio.run(count())
    for topic in ("shop/1", "shop/2", "elsewhere"):
        admin.done("topic", "create", topic)
    (listed,) = admin.done("access", "count", "-o", "ndjson").rows
    at = "1970-01-01T00:00:00Z"
    assert listed == {"counted": "topics", "topics": "shop/*", "number": 10, "leased": 10, "counted_at": at}
    (counted,) = admin.done("access", "count", "--anew", "-o", "ndjson").rows
    assert (counted["number"], counted["leased"]) == (2, 0), "no hub is alive that could make any"
    assert counted["counted_at"] > at
    assert admin.done("access", "count", "--prefix", "subscriptions", "-o", "ndjson").rows == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("allow", "ann", "publish", "t"), "user:NAME, group:NAME"),
        (("allow", "user:ann", "produce", "t"), "'produce' is no action"),
        (("allow", "user:ann", "publish", "a*b"), "stands at the end only"),
        (("allow", "user:ann", "subscribe", "t"), "says as whom"),
        (("deny", "user:ann", "publish", "t", "--as", "x"), "only rules on subscribe and unsubscribe"),
        (("limit", "user:ann", "publishes_per_s=0", "t"), "is above 0"),
        (("limit", "user:ann", "topics=5", "t"), "connections=N, topics_max=N or subscriptions_max=N"),
        (("revoke", "limit", "user:ann", "publish", "t"), "SIZE, connections=N, topics_max=N"),
        (("check", "ann", "publish", "t", "--as", "x"), "give --as SUBSCRIBER with"),
        (("check", "ann", "subscribe", "t"), "give --as SUBSCRIBER with"),
        (("check", "ann", "publish,create", "t"), "name one action"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(admin: Admin, words: tuple[str, ...], why: str) -> None:
    ran = admin.run("access", *words)
    assert ran.code == ExitCode.USAGE
    assert why in ran.err
