"""Prove that check finds exactly the planted faults, that repair mends exactly those, and that neither does harm."""

import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hedwig.cli.output.format_names import FORMATS
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.model import HubInfo, SubscriberId, Topic
from hedwig.versions import ANY, NEW
from tests.cli.support.admin import DEADLINE_S, PROGRAM_TELLING_ITS_PEAK, Admin, Ran
from tests.cli.support.agreement import check_agreement
from tests.cli.support.planted import (
    DEAD,
    FAULTS,
    in_store,
    listening_hub,
    local_ledgers,
    plant,
    plant_sound,
    ranges,
    set_ranges,
)
from tests.cli.support.store_contents import contents
from tests.support.servers import RunningServers

OK: Final = 0
WARNING: Final = 1
CRITICAL: Final = 2
UNKNOWN: Final = 3
_KILLS: Final = 6
_MANY: Final = 400


@pytest.fixture(params=["sqlite", "zookeeper", "hbase"])
def anywhere(request: pytest.FixtureRequest, servers: RunningServers, tmp_path: Path) -> Admin:
    """hedwig-admin on an empty store of each backend in turn, with a cluster in which no hub is registered."""
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
    if request.param != "sqlite":
        zookeeper = servers.address("zookeeper")
        cluster = f"zookeeper://{zookeeper}/hedwig/{uuid.uuid4().hex}"
        admin.environment["HEDWIG_CLUSTER"] = cluster
        if request.param == "hbase":
            servers.address("hbase")
        admin.url = cluster if request.param == "zookeeper" else f"hbase://{zookeeper}/c{uuid.uuid4().hex[:12]}"
        admin.environment["HEDWIG_METADATA"] = admin.url
    admin.done("metadata", "format", "--regions", "3", "--timeout", "120")
    return admin


@pytest.fixture
def alive(anywhere: Admin) -> Iterator[HubInfo]:
    """A hub of that store that counts as alive."""
    with listening_hub(anywhere.url) as hub:
        yield hub


def check(admin: Admin, *more: str) -> Ran:
    return admin.run("metadata", "check", "-o", "ndjson", *_records_only(admin), *more)


def repair(admin: Admin, *more: str) -> Ran:
    return admin.run("metadata", "repair", "-o", "ndjson", *_records_only(admin), *more)


def _records_only(admin: Admin) -> list[str]:
    """Return the options that leave ledgers out: no bookie knows the planted ones."""
    kinds = ("dead-owner", "lone-subscription", "range-overlap", "range-gap")
    return [word for kind in kinds for word in ("--kind", kind)] if "HEDWIG_CLUSTER" in admin.environment else []


def faults(ran: Ran) -> set[tuple[str, str | None, str | None, str]]:
    return {(row["kind"], row["topic"], row["subscriber"], row["severity"]) for row in ran.rows}


def results(ran: Ran) -> dict[tuple[str, str, str | None], str]:
    left = [row for row in ran.rows if row["result"] == "left" and row["severity"] == "critical"]
    assert ran.code == (CRITICAL if left else 0), ran
    return {(row["kind"], row["topic"], row["subscriber"]): row["result"] for row in ran.rows}


# ------------------------------------------------------------------------------------------------------- every backend


def test_check_finds_exactly_what_is_wrong_and_changes_nothing(anywhere: Admin, alive: HubInfo) -> None:
    plant_sound(anywhere.url, 40, alive)
    assert check(anywhere).code == OK
    plant(anywhere.url)
    before = contents(anywhere.url)
    ran = check(anywhere)
    assert faults(ran) == FAULTS
    assert len(ran.rows) == len(FAULTS)
    assert ran.code == CRITICAL
    assert all(row["what"] and row["why"] and row["repair"] for row in ran.rows)
    assert contents(anywhere.url) == before


def test_repair_mends_exactly_what_can_be_mended_and_a_second_check_is_clean(anywhere: Admin, alive: HubInfo) -> None:
    plant_sound(anywhere.url, 40, alive)
    sound = contents(anywhere.url)
    plant(anywhere.url)
    planted = contents(anywhere.url)
    dry = repair(anywhere, "--dry-run")
    assert contents(anywhere.url) == planted
    would = results(dry)
    done = results(repair(anywhere, "--yes"))
    assert done.keys() == would.keys() == {fault[:3] for fault in FAULTS}
    left = {key for key, result in would.items() if result == "left"}
    assert left == {("range-overlap", "f/overlap", None), ("range-gap", "f/gap", None)}
    assert {key for key, result in done.items() if result == "left"} == left
    assert {result for key, result in done.items() if key not in left} == {"repaired"}
    now = contents(anywhere.url)
    assert {key: now[key] for key in sound} == sound
    topics = {key[1] for key in now if key[0] == "persistence"}
    assert b"f/lone" in topics
    assert {key[2]: now[key].state.consumed.local for key in now if key[1] == b"f/lone" and key[2]} == {
        b"consumed": 0,
        b"fresh": 0,
    }
    assert now["persistence", b"f/twice", None] == ranges((7, 1, 5), (8, 6, None))
    assert ("ownership", b"f/dead", None) not in now
    assert faults(check(anywhere)) == {fault for fault in FAULTS if fault[1] in ("f/overlap", "f/gap")}
    again = repair(anywhere, "--yes")
    assert (again.code, again.rows) == (CRITICAL, [])
    assert "nothing to repair; left: 2, 2 of them critical" in again.err
    assert contents(anywhere.url) == now


def test_prefix_and_kind_and_limit_narrow_a_check(anywhere: Admin) -> None:
    plant(anywhere.url)
    assert faults(check(anywhere, "--prefix", "f/dead")) == {fault for fault in FAULTS if fault[1].startswith("f/dead")}
    assert check(anywhere, "--prefix", "g").code == OK
    one = anywhere.run("metadata", "check", "--kind", "range-gap", "-o", "ndjson")
    assert faults(one) == {fault for fault in FAULTS if fault[0] == "range-gap"}
    cut = check(anywhere, "--limit", "3")
    assert len(cut.rows) == 3
    assert "there may be more" in cut.err
    done = results(repair(anywhere, "--prefix", "f/dead", "--yes"))
    assert set(done) == {("dead-owner", "f/dead", None), ("dead-owner", "f/dead-without-ranges", None)}
    assert faults(check(anywhere)) == {fault for fault in FAULTS if fault[0] != "dead-owner"}


def test_owners_that_live_and_what_they_serve_is_left(anywhere: Admin, alive: HubInfo) -> None:
    async def own(store: MetadataStore) -> None:
        for name in (b"f/lone", b"f/twice"):
            await store.ownership.write(Topic(name), alive, NEW)

    plant(anywhere.url)
    in_store(anywhere.url, own)
    before = contents(anywhere.url)
    done = results(repair(anywhere, "--yes"))
    assert {key[1] for key, result in done.items() if result == "repaired"} == {"f/dead", "f/dead-without-ranges"}
    now = contents(anywhere.url)
    assert {key[1] for key in before.keys() - now.keys()} == {b"f/dead", b"f/dead-without-ranges"}
    assert all(before[key] == record for key, record in now.items())


# --------------------------------------------------------------------------------------------------- dry run and asking


def test_repair_says_what_and_how_many_and_asks(admin: Admin) -> None:
    plant(admin.url)
    before = contents(admin.url)
    asked = admin.run("metadata", "repair", text="n\n")
    assert asked.code == ExitCode.FAILED
    for words in ("2 owner records of dead hubs", "2 subscriptions to set to 0", "1 record of overlapping", admin.url):
        assert words in asked.err, asked.err
    silent = admin.run("metadata", "repair", text="")
    assert (silent.code, "--yes" in silent.err) == (ExitCode.USAGE, True)
    assert contents(admin.url) == before
    assert admin.run("metadata", "repair", text="y\n").code == CRITICAL
    assert contents(admin.url) != before


def test_dry_run_says_how_many_and_asks_nothing(admin: Admin) -> None:
    plant(admin.url)
    ran = admin.run("metadata", "repair", "--dry-run", "-o", "json")
    assert ran.code == CRITICAL
    assert len(ran.json["repairs"]) == len(FAULTS)
    assert "2 owner records of dead hubs to delete" in ran.err
    assert "nothing was changed; left: 2, 2 of them critical" in ran.err


def test_repair_of_nothing_says_so_and_no_more(admin: Admin) -> None:
    admin.done("topic", "create", "news")
    for command in (("metadata", "repair"), ("metadata", "repair", "--dry-run")):
        ran = admin.done(*command, "--kind", "lone-subscription")
        assert ran.out == ""
        (line,) = ran.err.splitlines()
        assert "repair: nothing" in line or line == "nothing to repair"
        assert admin.done(*command, "--kind", "lone-subscription", "-o", "json").json["repairs"] == []


def test_limit_bounds_what_is_repaired(admin: Admin) -> None:
    plant(admin.url)
    done = results(repair(admin, "--yes", "--limit", "1", "--kind", "dead-owner"))
    assert len(done) == 1
    assert len(check(admin, "--kind", "dead-owner").rows) == 1


@pytest.mark.parametrize("command", ["check", "repair"])
def test_all_formats_agree(admin: Admin, command: str) -> None:
    more = ("--dry-run",) if command == "repair" else ()
    admin.done("topic", "create", "news")
    check_agreement({name: admin.done("metadata", command, *more, "-o", name).out for name in FORMATS})
    plant(admin.url)
    ran = {name: admin.run("metadata", command, *more, "-o", name) for name in FORMATS}
    assert {each.code for each in ran.values()} == {CRITICAL}
    check_agreement({name: each.out for name, each in ran.items()})


def test_check_of_odd_names_agrees_in_all_formats(admin: Admin) -> None:
    async def write(store: MetadataStore) -> None:
        await store.ownership.write(Topic(b"odd\x00\xff"), DEAD, NEW)

    in_store(admin.url, write)
    report = json.loads(admin.run("metadata", "check", "-o", "json").out)
    (row,) = report["findings"]
    assert (row["topic"], row["topic_base64"]) == ("odd\\x00\\xff", "b2RkAP8=")
    table = admin.run("metadata", "check").out.splitlines()
    assert table[0].split() == ["SEVERITY", "KIND", "TOPIC", "WHAT"]
    assert "odd\\x00\\xff" in table[1]


# --------------------------------------------------------------------------------------------------- what is not known


def test_without_a_cluster_nobody_is_declared_dead(servers: RunningServers, tmp_path: Path) -> None:
    """A store in HBase does not list hubs, and hubs of a store in ZooKeeper may be registered elsewhere."""
    zookeeper = servers.address("zookeeper")
    servers.address("hbase")
    hbase = Admin(tmp_path, f"hbase://{zookeeper}/n{uuid.uuid4().hex[:12]}")
    hbase.done("metadata", "format", "--regions", "3", "--timeout", "120")
    plant(hbase.url)
    before = contents(hbase.url)
    ran = hbase.run("metadata", "check", "-o", "ndjson")
    assert "not checked: dead-owner" in ran.err
    assert "dead-owner" not in {row["kind"] for row in ran.rows}
    named = hbase.run("metadata", "check", "--kind", "dead-owner")
    assert (named.code, "--cluster URL" in named.err) == (UNKNOWN, True)
    refused = hbase.run("metadata", "repair", "--kind", "dead-owner", "--yes")
    assert (refused.code, "--cluster URL" in refused.err) == (ExitCode.FAILED, True)
    assert contents(hbase.url) == before
    there = Admin(tmp_path, f"zookeeper://{zookeeper}/hedwig/{uuid.uuid4().hex}")
    there.done("metadata", "format")
    plant(there.url)
    ran = there.run("metadata", "check", "--kind", "dead-owner", "-o", "ndjson")
    assert [(row["repairable"], "--cluster URL" in row["repair"]) for row in ran.rows] == [(False, True)] * 2
    there.done("metadata", "repair", "--kind", "dead-owner", "--yes")
    assert len(there.run("metadata", "check", "--kind", "dead-owner", "-o", "ndjson").rows) == 2


def test_what_cannot_be_asked_ends_in_unknown(admin: Admin) -> None:
    plant(admin.url)
    ran = admin.run("metadata", "check", "--cluster", "zookeeper://127.0.0.1:1/hedwig/x", "--timeout", "1")
    assert (ran.code, len(ran.err.splitlines()), "127.0.0.1:1" in ran.err) == (UNKNOWN, 1, True), ran
    ran = admin.run("metadata", "check", "--metadata", "nonsense")
    assert (ran.code, len(ran.err.splitlines())) == (UNKNOWN, 1)
    ran = admin.run("metadata", "check", "--kind", "missing-ledger")
    assert (ran.code, "--data DIR" in ran.err) == (UNKNOWN, True)
    ran = admin.run("metadata", "check", "--data", str(admin.directory))
    assert (ran.code, "there are no ledgers in" in ran.err) == (UNKNOWN, True)


def test_warnings_alone_are_a_warning(admin: Admin) -> None:
    async def write(store: MetadataStore) -> None:
        await store.ownership.write(Topic(b"news"), DEAD, NEW)

    in_store(admin.url, write)
    assert check(admin).code == WARNING


# --------------------------------------------------------------------------------------------------- unreadable records


def test_unreadable_records_are_repaired_only_when_that_is_asked_for(admin: Admin) -> None:
    plant_sound(admin.url, 3)
    admin.done("subscription", "create", "news", "reader")
    admin.done("subscription", "create", "news", "other")
    in_store(admin.url, lambda store: store.ownership.write(Topic(b"news"), DEAD, NEW))
    admin.query("UPDATE ownership SET record = x'ff'")
    admin.query("UPDATE subscriptions SET state = x'ff' WHERE subscriber = CAST('reader' AS BLOB)")
    admin.query("UPDATE persistence SET record = x'ff' WHERE topic = CAST('sound/1' AS BLOB)")
    ran = check(admin)
    assert ran.code == CRITICAL
    assert {(row["kind"], row["topic"], row["subscriber"], row["repairable"]) for row in ran.rows} == {
        ("unreadable-record", "news", None, True),
        ("unreadable-record", "news", "reader", True),
        ("unreadable-record", "sound/1", None, False),
    }
    ran = repair(admin, "--yes")
    assert (ran.code, ran.rows) == (CRITICAL, [])
    assert "nothing to repair; left: 3, 3 of them critical" in ran.err
    in_store(admin.url, lambda store: store.ownership.write(Topic(b"sound/2"), DEAD, ANY))
    ran = repair(admin, "--yes")
    assert (ran.code, len(ran.rows)) == (CRITICAL, 4)
    assert "repaired 1; " in ran.err
    assert "left: 3, 3 of them critical" in ran.err
    done = results(repair(admin, "--yes", "--kind", "unreadable-record"))
    assert done == {
        ("unreadable-record", "news", None): "repaired",
        ("unreadable-record", "news", "reader"): "repaired",
        ("unreadable-record", "sound/1", None): "left",
    }
    assert [row["topic"] for row in check(admin).rows] == ["sound/1"]
    assert admin.done("subscription", "list", "news", "-o", "json").json["subscriptions"][0]["subscriber"] == "other"


# ------------------------------------------------------------------------------------------ ledgers in a data directory


@pytest.fixture
def with_ledgers(admin: Admin) -> list[int]:
    """Five ledgers in the data directory of a hub that is down, with 5, 4, 3, 2 and 1 entries."""
    admin.environment["HEDWIG_DATA"] = str(admin.directory / "hub")
    return local_ledgers(admin.directory / "hub", 5, 4, 3, 2, 1)


def test_ranges_are_mended_by_what_their_ledgers_hold(admin: Admin, with_ledgers: list[int]) -> None:
    one, two, three, four, five = with_ledgers
    set_ranges(admin.url, "gap", ranges((one, 1, 3), (two, 6, 9)))
    set_ranges(admin.url, "overlap", ranges((three, 1, 7), (four, 4, None)))
    set_ranges(admin.url, "lost", ranges((five, 1, 1), (five + 1, 5, None)))
    ran = check(admin)
    assert {(row["kind"], row["topic"], row["repairable"]) for row in ran.rows} == {
        ("range-gap", "gap", True),
        ("range-overlap", "overlap", True),
        ("range-gap", "lost", False),
        ("missing-ledger", "lost", False),
    }
    done = results(repair(admin, "--yes"))
    assert {key[1] for key, result in done.items() if result == "repaired"} == {"gap", "overlap"}
    now = contents(admin.url)
    assert now["persistence", b"gap", None] == ranges((one, 1, 5), (two, 6, 9))
    assert now["persistence", b"overlap", None] == ranges((three, 1, 3), (four, 4, None))
    assert {row["topic"] for row in check(admin).rows} == {"lost"}


def test_ledgers_in_a_directory_that_nobody_refers_to_are_listed_and_kept(
    admin: Admin, with_ledgers: list[int]
) -> None:
    one, two, *others = with_ledgers
    set_ranges(admin.url, "news", ranges((one, 1, 5), (two, 6, 9)))
    ran = check(admin)
    assert ran.code == OK
    assert [(row["kind"], row["severity"], row["ledger_ids"], row["repairable"]) for row in ran.rows] == [
        ("orphan-ledger", "note", [each], False) for each in others
    ]
    done = repair(admin, "--yes", "--kind", "orphan-ledger")
    assert done.code == 0
    assert len(check(admin).rows) == 3


def test_lost_ledgers_are_taken_off_the_record_only_when_that_is_asked_for(
    admin: Admin, with_ledgers: list[int]
) -> None:
    gone = max(with_ledgers) + 1
    one, two, *_ = with_ledgers
    set_ranges(admin.url, "front", ranges((gone, 1, 3), (one, 4, 8), (two, 9, None)))
    set_ranges(admin.url, "middle", ranges((one, 1, 5), (gone + 1, 6, 6), (two, 7, None)))
    ran = check(admin, "--kind", "missing-ledger")
    assert ran.code == CRITICAL
    assert {(row["topic"], row["ledger_ids"][0], row["repairable"]) for row in ran.rows} == {
        ("front", gone, True),
        ("middle", gone + 1, False),
    }
    ran = repair(admin, "--yes")
    assert (ran.code, ran.rows) == (CRITICAL, [])
    assert "left: 2, 2 of them critical" in ran.err
    done = results(repair(admin, "--yes", "--kind", "missing-ledger"))
    assert done == {("missing-ledger", "front", None): "repaired", ("missing-ledger", "middle", None): "left"}
    assert contents(admin.url)["persistence", b"front", None] == ranges((one, 4, 8), (two, 9, None))
    assert {row["topic"] for row in check(admin, "--kind", "missing-ledger").rows} == {"middle"}


def test_directory_without_a_single_ledger_on_record_is_not_believed(admin: Admin, with_ledgers: list[int]) -> None:
    gone = max(with_ledgers) + 1
    set_ranges(admin.url, "front", ranges((gone, 1, 3)))
    before = contents(admin.url)
    ran = admin.run("metadata", "repair", "--yes", "--kind", "missing-ledger")
    assert (ran.code, "--data" in ran.err) == (ExitCode.FAILED, True)
    assert contents(admin.url) == before


def test_directory_of_another_hub_is_refused(admin: Admin, with_ledgers: list[int]) -> None:
    in_store(admin.url, lambda store: store.register_standalone(str(uuid.uuid4()), "127.0.0.1:4080:-1"))
    (admin.directory / "hub" / "hub-id").write_text(f"{uuid.uuid4()}\n")
    ran = admin.run("metadata", "check")
    assert (ran.code, "but the hub" in ran.err) == (UNKNOWN, True)
    assert admin.run("metadata", "repair", "--yes").code == ExitCode.USAGE


# ------------------------------------------------------------------------------------------------------ crash and size


def test_repair_that_is_killed_leaves_nothing_half_done(admin: Admin) -> None:
    """Wherever the repair ends, each record is either unchanged or repaired; the same command does the rest."""

    async def write(store: MetadataStore) -> None:
        for number in range(_MANY):
            topic = Topic(b"k/%03d" % number)
            await store.persistence.write(topic, ranges((1, 1, 5), (1, 1, 5), (2, 6, None)), NEW)
            await store.ownership.write(topic, DEAD, NEW)

    in_store(admin.url, write)
    sound, twice = ranges((1, 1, 5), (2, 6, None)), ranges((1, 1, 5), (1, 1, 5), (2, 6, None))
    chance = random.Random(5)
    met: set[int] = set()
    for _ in range(_KILLS):
        process = admin.start("metadata", "repair", "--yes", "-o", "ndjson")
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 120)):
            if not process.stdout.readline():
                break
        process.kill()
        process.communicate(timeout=DEADLINE_S)
        now = contents(admin.url)
        states = [now["persistence", b"k/%03d" % number, None] for number in range(_MANY)]
        assert all(state in (sound, twice) for state in states)
        met.add(states.count(sound))
    assert len(met) > 2
    assert repair(admin, "--yes").code == 0
    assert check(admin).code == OK
    assert set(contents(admin.url).values()) == {sound}


@pytest.mark.full
def test_check_of_many_records_holds_a_page_of_them_and_says_how_far_it_is(admin: Admin) -> None:
    admin.done("metadata", "format")
    admin.query(
        "INSERT INTO ownership (topic, version, record) WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
        "WHERE n < 100000) SELECT CAST('many/' || n AS BLOB), zeroblob(25), x'ff' FROM n"
    )
    ran = admin.run_apart("metadata", "check", "--columns", "topic", "-o", "csv", program=PROGRAM_TELLING_ITS_PEAK)
    assert ran.code == CRITICAL, ran.err[-2000:]
    assert len(ran.out.splitlines()) == 100_001
    assert int(ran.err.split()[-1]) < 200 * 1024
    assert "checked 100,000 records: 100,000 critical findings" in ran.err


def test_subscriber_and_version_of_a_finding_are_those_of_its_record(admin: Admin) -> None:
    plant(admin.url)
    rows: list[Any] = check(admin, "--kind", "lone-subscription").rows

    async def versions(store: MetadataStore) -> dict[str, str]:
        subscriptions = store.subscriptions.read_subscriptions(Topic(b"f/lone"))
        return {subscriber.decode(): str(record.version) async for subscriber, record in subscriptions}

    assert {row["subscriber"]: row["version"] for row in rows} == in_store(admin.url, versions)
    assert SubscriberId(b"fresh").decode() in {row["subscriber"] for row in rows}


def test_earlier_starts_of_a_standalone_hub_are_dead_wherever_its_metadata_are(anywhere: Admin) -> None:
    """No cluster is named. A store in HBase knows no other hub, and a store in ZooKeeper has none registered."""
    anywhere.environment["HEDWIG_CLUSTER"] = ""
    owner = "--kind", "dead-owner"
    with listening_hub(anywhere.url) as first:
        in_store(anywhere.url, lambda store: store.ownership.write(Topic(b"now"), first, NEW))
        assert anywhere.run("metadata", "check", *owner).code == OK

    async def start_again(store: MetadataStore) -> int:
        return await store.register_standalone("planted", first.address)

    in_store(anywhere.url, start_again)
    ran = anywhere.run("metadata", "check", *owner, "-o", "ndjson")
    assert [(row["topic"], row["repairable"]) for row in ran.rows] == [("now", True)]
    done = anywhere.done("metadata", "repair", *owner, "--yes", "-o", "ndjson").rows
    assert [row["result"] for row in done] == ["repaired"]
    assert anywhere.run("metadata", "check", *owner).code == OK
