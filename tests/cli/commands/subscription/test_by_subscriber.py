"""Prove that a subscriber's subscriptions are listed and deleted on any topics, and what an index adds."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.metadata import IndexState, MetadataStore
from hedwig.metadata.calls.indexed_table import entry_key
from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import SubscriberId, Topic
from hedwig.versions import ANY
from tests.cli.support.admin import Admin
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.planted import in_store
from tests.support.servers import RunningServers


@pytest.fixture(params=["sqlite", "zookeeper", "hbase"])
def anywhere(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Admin:
    """hedwig-admin on an empty store of each backend in turn."""
    if request.param == "sqlite":
        return Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
    zookeeper = servers.address("zookeeper")
    if request.param == "hbase":
        servers.address("hbase")
    name = uuid.uuid4().hex
    url = f"hbase://{zookeeper}/b{name}" if request.param == "hbase" else f"zookeeper://{zookeeper}/hedwig/{name}"
    admin = Admin(tmp_path, url)
    admin.done("metadata", "format", "--regions", "2", "--timeout", "120")
    return admin


def _fill(admin: Admin, topics: int) -> None:
    rows = [f"t{number:03}\t{name}\n" for number in range(topics) for name in ("reader", "writer")]
    path = admin.directory / "rows.tsv"
    path.write_text("".join(rows))
    admin.done("subscription", "create", "-f", str(path))


def _topics(admin: Admin, *more: str) -> list[str]:
    return [
        row["topic"] for row in admin.done("subscription", "list", "--subscriber", "reader", "-o", "ndjson", *more).rows
    ]


def test_subscriptions_of_a_subscriber_are_listed_on_each_backend(anywhere: Admin) -> None:
    _fill(anywhere, 25)
    anywhere.done("subscription", "create", "t007\\xff", "reader", "--consumed", "7")
    listed = _topics(anywhere)
    assert sorted(listed) == sorted([*(f"t{number:03}" for number in range(25)), "t007\\xff"])
    assert _topics(anywhere, "--prefix", "t01") == [name for name in listed if name.startswith("t01")]
    assert _topics(anywhere, "--start-after", listed[11]) == listed[12:]
    rows = anywhere.done("subscription", "list", "--subscriber", "reader", "--prefix", "t007\\xff", "-o", "ndjson").rows
    assert [(row["subscriber"], row["consumed"]) for row in rows] == [("reader", 7)]
    assert anywhere.done("subscription", "list", "--subscriber", "nobody", "-o", "json").json["subscriptions"] == []


def test_pages_of_a_subscribers_subscriptions_join_up(anywhere: Admin) -> None:
    _fill(anywhere, 10)
    whole = _topics(anywhere)
    pages: list[str] = []
    token: list[str] = []
    for _ in range(4):
        page = anywhere.done(
            "subscription", "list", "--subscriber", "reader", "--limit", "3", "-o", "json", *token
        ).json
        pages += [row["topic"] for row in page["subscriptions"]]
        token = ["--page-token", page["next_page_token"]]
    assert pages == whole
    assert page["next_page_token"] is None
    page = anywhere.done("subscription", "list", "--subscriber", "reader", "--limit", "10", "-o", "json").json
    assert page["next_page_token"] is None, "nothing is left"


def test_topic_and_subscriber_exclude_each_other(admin: Admin) -> None:
    for words in ([], ["news", "--subscriber", "reader"]):
        ran = admin.run("subscription", "list", *words)
        assert ran.code == ExitCode.USAGE
        assert "either TOPIC or --subscriber" in ran.err
    for words in (["news"], ["news", "reader", "--all", "reader"]):
        assert admin.run("unsubscribe", *words).code == ExitCode.USAGE


# ---------------------------------------------------------------------------------------------------------- unsubscribe


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[HubAndAdmin]:
    with HubAndAdmin(tmp_path) as started:
        started.admin.environment["HEDWIG_HUB"] = started.hub.address
        yield started


def test_unsubscribe_all_deletes_what_the_subscriber_has_and_nothing_else(pair: HubAndAdmin) -> None:
    for number in range(70):
        pair.subscribe(f"t{number}", "reader")
    pair.subscribe("t1", "other")
    counted = pair.admin.done("unsubscribe", "--all", "reader", "--dry-run", "-o", "json").json
    assert counted == {"subscriber": "reader", "would_delete": 70}
    refused = pair.admin.run("unsubscribe", "--all", "reader", text="no\n")
    assert "This deletes 70 subscriptions of 'reader' for good" in refused.err
    assert refused.code != 0
    assert len(_topics(pair.admin)) == 70
    done = pair.admin.done("unsubscribe", "--all", "reader", "--yes", "-o", "json").json
    assert done == {"subscriber": "reader", "deleted": 70, "absent": 0}
    assert _topics(pair.admin) == []
    assert pair.admin.done("unsubscribe", "--all", "reader", "-o", "json").json["deleted"] == 0
    assert [row["subscriber"] for row in pair.admin.done("subscription", "list", "t1", "-o", "ndjson").rows] == [
        "other"
    ]


def test_unsubscribe_all_says_which_subscriptions_stay_without_a_hub(admin: Admin) -> None:
    _fill(admin, 30)
    admin.environment["HEDWIG_HUB"] = "127.0.0.1:9"
    ran = admin.run("unsubscribe", "--all", "reader", "--yes")
    assert ran.code != 0
    assert "0 subscriptions of 'reader' were deleted; of" in ran.err
    assert "refused, or is not known; to go on, give the same command again" in ran.err
    assert "the subscription of 'reader' to topic 't0" in ran.err
    assert len(_topics(admin)) == 30


# ----------------------------------------------------------------------------------------------------------- the index


@pytest.fixture
def hbase(servers: RunningServers, tmp_path: Path) -> Admin:
    """hedwig-admin on an HBase in which nothing is laid out."""
    servers.address("hbase")
    return Admin(tmp_path, f"hbase://{servers.address('zookeeper')}/b{uuid.uuid4().hex}")


def test_new_store_has_a_whole_index(hbase: Admin) -> None:
    hbase.done("metadata", "format", "--regions", "2", "--timeout", "120")
    assert hbase.done("metadata", "index", "-o", "json").json["index"] == "whole"
    assert any(name.endswith(":subscribers") for name in hbase.done("metadata", "describe", "-o", "json").json)


def test_index_is_begun_built_and_ended(hbase: Admin) -> None:
    hbase.done("metadata", "format", "--regions", "2", "--no-subscriber-index", "--timeout", "120")
    _fill(hbase, 8)
    assert hbase.done("metadata", "index", "-o", "json").json["index"] == "off"
    refused = hbase.run("metadata", "index", "--build")
    assert refused.code != 0
    assert "give metadata index --begin, restart every hub" in refused.err
    begun = hbase.done("metadata", "index", "--begin", "-o", "json")
    assert begun.json["index"] == "kept"
    assert "restart every hub" in begun.err
    checked = hbase.run("metadata", "check", "--kind", "unindexed-subscription")
    assert "metadata index --build fills it" in checked.err
    built = hbase.done("metadata", "index", "--build", "-o", "json").json
    assert (built["index"], built["entered"]) == ("whole", 16)
    assert hbase.done("metadata", "index", "--begin", "-o", "json").json["index"] == "whole", "it was begun before"
    assert len(_topics(hbase)) == 8
    assert hbase.done("metadata", "index", "--end", "-o", "json").json["index"] == "off"
    assert len(_topics(hbase)) == 8


def test_check_finds_what_the_index_lacks_and_repair_enters_it(hbase: Admin) -> None:
    hbase.done("metadata", "format", "--regions", "2", "--timeout", "120")
    _fill(hbase, 8)

    async def lose(store: MetadataStore) -> None:
        assert store.index_state is IndexState.WHOLE
        await store.index_entries.delete(entry_key(RecordKey(Topic(b"t003"), SubscriberId(b"reader"))), ANY)

    in_store(hbase.url, lose)
    assert len(_topics(hbase)) == 7
    words = ("--kind", "unindexed-subscription", "--kind", "stray-index-entry", "-o", "ndjson")
    (found,) = (ran := hbase.run("metadata", "check", *words)).rows
    assert ran.code == 1
    assert (found["severity"], found["kind"]) == ("warning", "unindexed-subscription")
    assert (found["topic"], found["subscriber"]) == ("t003", "reader")
    (mended,) = hbase.done("metadata", "repair", "--yes", *words).rows
    assert mended["result"] == "repaired"
    assert hbase.done("metadata", "check", *words).rows == []
    assert len(_topics(hbase)) == 8


def test_other_backends_have_no_index_to_keep(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    assert admin.done("metadata", "index", "-o", "json").json["index"] == "none"
    refused = admin.run("metadata", "index", "--begin")
    assert refused.code != 0
    assert "it is for HBase" in refused.err
