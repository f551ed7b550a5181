"""Prove what the topic commands do to the store, and what they report."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hedwig.cli.commands.topic.deletion import delete_topic, read_topic
from hedwig.clock import SystemClock
from hedwig.errors import BadVersionError, NoRecordError
from hedwig.metadata import MetadataStore, RecordKey, Write, open_metadata
from hedwig.metadata.migration.freeze_watch import FreezeWatch
from hedwig.model import (
    HubInfo,
    LedgerRange,
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionState,
    Topic,
)
from hedwig.versions import ANY, NEW
from tests.cli.support.admin import Admin
from tests.support.endings import end_all

NEWS = Topic(b"news")
HUB = HubInfo(host="hub.example", port=4080, ssl_port=9876, epoch=7)


def _store(admin: Admin, work: Callable[[MetadataStore], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with await open_metadata(admin.url) as store:
            return await work(store)

    return asyncio.run(run())


async def _populate(store: MetadataStore) -> None:
    closed = LedgerRange(ledger_id=3, start=1, end=MessageSeqId(10))
    ranges = LedgerRanges((closed, LedgerRange(ledger_id=4, start=11)))
    await store.persistence.write(NEWS, ranges, NEW)
    await store.ownership.write(NEWS, HUB, NEW)
    data = SubscriptionData(state=SubscriptionState(MessageSeqId(1)))
    keys = [RecordKey(NEWS, SubscriberId(b"s%03d" % number)) for number in range(600)]
    for outcome in await store.subscriptions.apply([Write(key, data, NEW) for key in keys]):
        outcome.check()


# ------------------------------------------------------------------------------------------------------ create and show


def test_create_writes_an_empty_persistence_record_and_prints_its_version(admin: Admin) -> None:
    (row,) = admin.done("topic", "create", "news", "-o", "json").json["topics"]
    stored = _store(admin, lambda store: store.persistence.read(NEWS))
    assert stored.value == LedgerRanges()
    assert row == {"topic": "news", "result": "created", "version": str(stored.version)}


def test_create_of_several_reports_each(admin: Admin) -> None:
    admin.done("topic", "create", "b")
    ran = admin.run("topic", "create", "a", "b", "c", "a", "-o", "ndjson")
    assert ran.code == 4
    assert [row["topic"] for row in ran.rows] == ["a", "c"]
    assert [line.split()[0] for line in ran.err.splitlines()] == ["error:", "error:"]
    assert "'b' exists already" in ran.err
    again = admin.done("topic", "create", "a", "b", "d", "--if-not-exists", "-o", "ndjson")
    assert [row["result"] for row in again.rows] == ["existed", "existed", "created"]
    assert again.rows[0]["version"] == ran.rows[0]["version"]


def test_show_names_everything_a_topic_has(admin: Admin) -> None:
    _store(admin, _populate)
    shown = admin.done("topic", "show", "news", "-o", "json", "--subscriptions", "2").json
    assert (shown["owner"], shown["owner_ssl_port"], shown["owner_epoch"]) == ("hub.example:4080", 9876, 7)
    stored = _store(admin, lambda store: store.ownership.read(NEWS))
    assert shown["owner_version"] == str(stored.version)
    assert shown["ledgers"] == [{"ledger_id": 3, "start": 1, "end": 10}, {"ledger_id": 4, "start": 11, "end": None}]
    assert (shown["ledger_count"], shown["subscription_count"]) == (2, 600)
    assert [each["subscriber"] for each in shown["subscriptions"]] == ["s000", "s001"]
    table = admin.done("topic", "show", "news").out
    assert "owner               hub.example:4080\n" in table
    assert "subscription_count  600" in table


def test_show_gives_single_values_to_scripts(admin: Admin) -> None:
    (row,) = admin.done("topic", "create", "news", "-o", "ndjson").rows
    ran = admin.done("topic", "show", "news", "--columns", "version", "--no-header")
    assert ran.out == row["version"] + "\n"
    admin.done("topic", "delete", "news", "--yes", "--expected-version", ran.out.strip())


@pytest.mark.parametrize(
    "name", [b"\xff", b"a\x00b", b"tab\there", b"back\\slash", b"-dash", "grüße/Ω".encode(), b"new\nline"]
)
def test_any_name_can_be_typed_as_it_is_shown(admin: Admin, name: bytes) -> None:
    typed = admin.done("topic", "create", "-o", "ndjson", "--", _as_typed(name)).rows[0]["topic"]
    assert admin.query("SELECT topic FROM persistence") == [(name,)]
    (listed,) = admin.done("topic", "list", "-o", "ndjson").rows
    assert listed["topic"] == typed
    try:
        name.decode()
        assert "topic_base64" not in listed
    except UnicodeDecodeError:
        assert base64.b64decode(listed["topic_base64"]) == name
    assert admin.done("topic", "list").out == f"TOPIC\n{typed}\n"
    assert admin.done("topic", "show", "-o", "json", "--", typed).json["topic"] == typed
    admin.done("topic", "delete", "--yes", "--", typed)
    assert admin.count("persistence") == 0


def _as_typed(name: bytes) -> str:
    return (
        "".join(f"\\x{byte:02x}" if byte in b"\xff\x00\\\t\n" else chr(byte) for byte in name)
        .encode("latin-1")
        .decode()
    )


def test_raw_bytes_of_the_command_line_are_the_name(admin: Admin) -> None:
    ran = admin.run_apart("topic", "create", b"raw\xff\xfe", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["topics"][0]["topic"] == "raw\\xff\\xfe"
    assert admin.query("SELECT topic FROM persistence") == [(b"raw\xff\xfe",)]


# --------------------------------------------------------------------------------------------------------------- delete


def test_delete_takes_everything_with_force_only(admin: Admin) -> None:
    _store(admin, _populate)
    refused = admin.run("topic", "delete", "news", "--yes")
    assert refused.code == 1
    assert "the owner hub.example:4080 (not known for sure to be down: " in refused.err
    assert ") and 600 subscriptions; --force" in refused.err
    assert (admin.count("subscriptions"), admin.count("ownership"), admin.count("persistence")) == (600, 1, 1)
    version = admin.done("topic", "show", "news", "--columns", "version", "--no-header").out.strip()
    ran = admin.done("topic", "delete", "news", "--yes", "--force", "--offline", "-o", "json")
    expected = {
        "topic": "news",
        "result": "deleted",
        "owner": "hub.example:4080",
        "owner_state": "unknown",
        "subscriptions": 600,
        "ledgers": 2,
        "ledgers_left": 2,
        "version": version,
    }
    assert ran.json == expected
    assert (admin.count("subscriptions"), admin.count("ownership"), admin.count("persistence")) == (0, 0, 0)


def test_delete_asks_and_says_what_it_will_take(admin: Admin) -> None:
    _store(admin, _populate)
    for answer in ("", "n\n", "no\n", "\n"):
        ran = admin.run("topic", "delete", "news", "--force", "--offline", text=answer)
        assert ran.code in (1, 2)
        assert "600 subscriptions and the only record of 2 ledgers for good" in ran.err
    assert admin.count("subscriptions") == 600
    assert admin.run("topic", "delete", "news", "--force", "--offline", text="y\n").code == 0
    assert admin.count("persistence") == 0


def test_dry_run_changes_nothing(admin: Admin) -> None:
    _store(admin, _populate)
    ran = admin.done("topic", "delete", "news", "--force", "--offline", "--dry-run", "-o", "json")
    assert ran.json["result"] == "would delete"
    assert ran.json["subscriptions"] == 600
    assert admin.count("subscriptions") == 600
    assert admin.run("topic", "delete", "news", "--dry-run").code == 1


def test_delete_of_what_is_absent(admin: Admin) -> None:
    admin.done("metadata", "format")
    assert admin.run("topic", "delete", "news", "--yes").code == 3
    assert admin.done("topic", "delete", "news", "--yes", "--if-exists", "-o", "json").json["result"] == "absent"


def test_delete_by_a_version_refuses_a_topic_that_changed(admin: Admin) -> None:
    (row,) = admin.done("topic", "create", "news", "-o", "ndjson").rows
    _store(admin, lambda store: store.persistence.write(NEWS, LedgerRanges(), ANY))
    ran = admin.run("topic", "delete", "news", "--yes", "--expected-version", row["version"])
    assert ran.code == 4
    current = admin.done("topic", "show", "news", "--columns", "version", "--no-header").out.strip()
    assert current in ran.err
    admin.done("topic", "delete", "news", "--yes", "--expected-version", current)


def test_leftovers_of_a_topic_can_be_seen_and_deleted(admin: Admin) -> None:
    _store(admin, lambda store: store.ownership.write(NEWS, HUB, NEW))
    assert admin.done("topic", "show", "news", "-o", "json").json["version"] is None
    assert admin.done("topic", "list", "-o", "ndjson", "--columns", "topic,owner,ledgers,version").rows == [
        {"topic": "news", "owner": "hub.example:4080", "ledgers": None, "version": None}
    ]
    admin.done("topic", "delete", "news", "--force", "--offline", "--yes")
    assert admin.count("ownership") == 0


def _watch(store: MetadataStore) -> FreezeWatch:
    return FreezeWatch(store.named_records, SystemClock())


async def _crashing(store: MetadataStore, after: int) -> None:
    """Delete the topic, but end after N steps of the event loop."""
    deletion = asyncio.create_task(delete_topic(store, await read_topic(store, NEWS), _watch(store)))
    for _ in range(after):
        await asyncio.sleep(0)
    await end_all([deletion])


@pytest.mark.parametrize("after", [0, 1, 2, 5, 20, 80, 300])
def test_deletion_that_ended_early_leaves_a_topic_that_can_be_deleted(admin: Admin, after: int) -> None:
    _store(admin, _populate)
    _store(admin, lambda store: _crashing(store, after))
    left = admin.count("persistence")
    # A topic with records left also keeps the record that makes it a topic.
    assert left == 1 or admin.count("subscriptions") == admin.count("ownership") == 0
    admin.done("topic", "delete", "news", "--force", "--offline", "--yes", "--if-exists")
    assert (admin.count("subscriptions"), admin.count("ownership"), admin.count("persistence")) == (0, 0, 0)


@pytest.mark.parametrize("change", ["claim", "ranges"])
def test_hub_that_claims_the_topic_meanwhile_keeps_it(admin: Admin, change: str) -> None:
    async def race(store: MetadataStore) -> None:
        await _populate(store)
        records = await read_topic(store, NEWS)
        if change == "claim":
            await store.ownership.write(NEWS, HUB, ANY)
        else:
            await store.persistence.write(NEWS, LedgerRanges(), ANY)
        with pytest.raises(BadVersionError):
            await delete_topic(store, records, _watch(store))
        assert await store.persistence.read(NEWS) is not None

    _store(admin, race)


def test_subscription_that_moves_meanwhile_is_deleted_where_it_stands(admin: Admin) -> None:
    async def race(store: MetadataStore) -> None:
        await _populate(store)
        records = await read_topic(store, NEWS)
        deletion = asyncio.create_task(delete_topic(store, records, _watch(store)))
        moved = SubscriptionData(state=SubscriptionState(MessageSeqId(10_000)))
        moves = 0
        for subscriber in [SubscriberId(b"s%03d" % number) for number in range(599, -1, -1)]:
            try:
                current = await store.subscriptions.read(NEWS, subscriber)
                if current is not None:
                    await store.subscriptions.update(NEWS, subscriber, moved, current.version)
                    moves += 1
            except (BadVersionError, NoRecordError):
                continue
        assert moves
        await deletion

    _store(admin, race)
    assert admin.count("persistence") == 0
