"""Prove which ledgers on bookies check takes for orphans, and that repair deletes only those.

Only their metadata in ZooKeeper count, so these tests plant metadata below a root of their own.
"""

import asyncio
import time
import uuid
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from hedwig.cli.commands.metadata.check import Surroundings, surroundings
from hedwig.clock import SystemClock
from hedwig.errors import BadVersionError
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout, layout_text
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.hub.ledgers.shared.held_record import HeldRecord, LogTakenOverError
from hedwig.metadata import MetadataStore
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.metadata.bulk.repairs import RepairResult
from hedwig.metadata.logs.record import DroppedLedger, LogState, Segment
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.virtual_ids import virtual_id
from hedwig.model import HubInfo, Topic
from hedwig.operations.checks.reported import Reported
from hedwig.operations.checks.store_repair import StoreRepair
from hedwig.operations.deployment.deployment import Deployment
from hedwig.versions import NEW
from tests.cli.support.admin import Admin
from tests.cli.support.command_tree import example_of
from tests.cli.support.planted import DEAD, in_store, ranges, set_ranges
from tests.cli.support.store_contents import contents
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.support.servers import RunningServers

HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Shelf:
    """Ledgers below a root of their own, and a store whose topics refer to them."""

    admin: Admin
    zookeeper: str
    root: str
    cluster: str
    raw: KazooClient

    def put(
        self,
        topic: str | None,
        *,
        age_s: float | None = 2 * HOUR_S,
        deployment: str | None = None,
        entries: int | None = 5,
        ledger_id: int | None = None,
        log: int | None = None,
    ) -> int:
        """Make the metadata of a ledger. If `entries` is None it is open. Without `topic` and `log` it has no mark."""
        mark: dict[str, bytes] = {}
        if topic is not None or log is not None:
            name = self.cluster if deployment is None else deployment
            mark = {"application": b"hedwig", "deployment": name.encode()}
            mark |= {"log": b"%d" % log} if log is not None else {"topic": str(topic).encode()}
        metadata = LedgerMetadata(
            quorums=Quorums(ensemble=1, write=1, ack=1),
            state=LedgerState.OPEN if entries is None else LedgerState.CLOSED,
            ensembles=(Ensemble(first_entry_id=0, bookies=("127.0.0.1:3181",)),),
            last_entry_id=-1 if entries is None else entries - 1,
            digest=DigestKind.CRC32C,
            password=b"",
            created_ms=None if age_s is None else int((time.time() - age_s) * 1000),
            custom=mark,
        )

        async def make(ledgers: ZookeeperLedgerMetadata) -> int:
            made = await ledgers.new_ledger_id() if ledger_id is None else ledger_id
            assert await ledgers.create(made, metadata) is not None
            return made

        made: int = asyncio.run(self.with_ledgers(make))
        return made

    def ids(self) -> set[int]:
        """Return the ids of all ledgers."""

        async def read(ledgers: ZookeeperLedgerMetadata) -> set[int]:
            return {ledger_id async for ledger_id in ledgers.ledgers()}

        ledger_ids: set[int] = asyncio.run(self.with_ledgers(read))
        return ledger_ids

    async def with_ledgers(self, work: Any) -> Any:
        """Return what `work` returns, given the metadata of the ledgers."""
        async with session_with(self.zookeeper) as session:
            return await work(await ZookeeperLedgerMetadata.open(session, self.root, SystemClock()))

    def around(self) -> Any:
        """Open what a check works on, without the command."""
        deployment = Deployment(
            command="metadata repair",
            timeout_s=30.0,
            metadata=self.admin.url,
            cluster=self.cluster,
            bookkeeper=f"zookeeper://{self.zookeeper}{self.root}",
        )
        return surroundings(deployment, list(FindingKind))


@pytest.fixture
def shelf(servers: RunningServers, tmp_path: Path) -> Iterator[Shelf]:
    """No ledger, and an empty store in a file."""
    zookeeper = servers.address("zookeeper")
    raw = KazooClient(zookeeper)
    raw.start(30)
    root = f"/ledgers-{uuid.uuid4().hex}"
    raw.create(root)
    raw.create(f"{root}/LAYOUT", layout_text(LedgerLayout.HIERARCHICAL))
    admin = Admin(tmp_path, f"sqlite://{tmp_path}/store.db")
    cluster = f"zookeeper://{zookeeper}/hedwig/{uuid.uuid4().hex}"
    admin.environment |= {"HEDWIG_CLUSTER": cluster, "HEDWIG_BOOKKEEPER": f"zookeeper://{zookeeper}{root}"}
    admin.done("metadata", "format")
    yield Shelf(admin, zookeeper, root, cluster, raw)
    raw.stop()
    raw.close()


def check(shelf: Shelf, *more: str) -> list[Any]:
    ran = shelf.admin.run("metadata", "check", "-o", "ndjson", *more)
    assert ran.code in (0, 1, 2), ran
    return ran.rows


async def _orphans(around: Surroundings) -> list[Reported]:
    findings: list[Reported] = []
    async with aclosing(around.check([FindingKind.ORPHAN_LEDGER], None, lambda _: None).findings()) as pages:
        async for page in pages:
            findings += page
    return findings


# -------------------------------------------------------------------------------------------------------------- orphans


def test_only_marked_old_and_unreferenced_ledgers_are_deleted(shelf: Shelf) -> None:
    kept = shelf.put("news")
    set_ranges(shelf.admin.url, "news", ranges((kept, 1, 5)))
    orphan, of_no_topic, opened = shelf.put("news"), shelf.put("was/deleted"), shelf.put("news", entries=None)
    young = {shelf.put("news", age_s=HOUR_S - 60), shelf.put("news", age_s=None), shelf.put(None, age_s=60)}
    elsewhere, unmarked = shelf.put("news", deployment="zookeeper://other/hedwig/eu"), shelf.put(None)
    rows = {row["ledger_ids"][0]: row for row in check(shelf)}
    assert {ledger_id: (row["topic"], row["severity"], row["repairable"]) for ledger_id, row in rows.items()} == {
        orphan: ("news", "warning", True),
        opened: ("news", "warning", True),
        of_no_topic: ("was/deleted", "warning", True),
        elsewhere: (None, "note", False),
        unmarked: (None, "note", False),
    }
    assert "zookeeper://other/hedwig/eu" in rows[elsewhere]["what"]
    everything = shelf.ids()
    dry = shelf.admin.done("metadata", "repair", "--dry-run")
    assert "3 ledgers to delete for good" in dry.err
    assert shelf.ids() == everything
    done = shelf.admin.done("metadata", "repair", "--yes", "-o", "ndjson").rows
    assert {row["ledger_ids"][0] for row in done if row["result"] == "repaired"} == {orphan, of_no_topic, opened}
    assert shelf.ids() == {kept, elsewhere, unmarked, *young}
    assert {row["ledger_ids"][0] for row in check(shelf)} == {elsewhere, unmarked}


def test_orphans_are_deleted_by_a_command_of_their_own(shelf: Shelf) -> None:
    kept = shelf.put("news")
    set_ranges(shelf.admin.url, "news", ranges((kept, 1, 5)))
    orphan, unmarked = shelf.put("news"), shelf.put(None)
    shelf.put("weather")
    everything = shelf.ids()
    example = shelf.admin.done(*example_of(("ledger", "delete-orphans")))
    assert "2 ledgers to delete for good" in example.err
    refused = shelf.admin.run("ledger", "delete-orphans", text="n\n")
    assert (refused.code, "2 ledgers to delete for good" in refused.err) == (1, True)
    assert shelf.ids() == everything
    shelf.admin.done("ledger", "delete-orphans", "--yes", "--prefix", "w")
    assert shelf.ids() == {kept, orphan, unmarked}
    done = shelf.admin.done("ledger", "delete-orphans", "--yes", "-o", "ndjson").rows
    assert [(row["ledger_ids"], row["result"]) for row in done if row["result"] == "repaired"] == [
        ([orphan], "repaired")
    ]
    assert shelf.ids() == {kept, unmarked}
    shelf.admin.environment["HEDWIG_BOOKKEEPER"] = shelf.admin.environment["HEDWIG_CLUSTER"] = ""
    nowhere = shelf.admin.run("ledger", "delete-orphans", "--yes")
    assert (nowhere.code, "--bookkeeper" in nowhere.err) == (1, True)


@pytest.mark.parametrize("ahead_s", [3 * HOUR_S, -3 * HOUR_S], ids=["fast", "slow"])
def test_clock_of_the_operators_machine_says_nothing_about_the_age_of_ledgers(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A hub records a ledger shortly after making it. A clock that runs fast would make such a ledger an old orphan."""
    set_ranges(shelf.admin.url, "news", ranges((shelf.put("news"), 1, 5)))
    orphan = shelf.put("news")
    just_made = shelf.put("news", age_s=None)
    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "wall", lambda _: time.time() + ahead_s)
        assert [row["ledger_ids"] for row in check(shelf)] == [[orphan]]
        shelf.admin.done("metadata", "repair", "--yes")
    assert orphan not in shelf.ids()
    assert just_made in shelf.ids()
    # What was created to learn the server's time is gone.
    assert {name[:2] for name in shelf.raw.get_children(shelf.root)} == {"00", "LA", "id"}


def test_ages_that_cannot_be_told_are_said_to_be_unknown(shelf: Shelf) -> None:
    set_ranges(shelf.admin.url, "news", ranges((shelf.put("news"), 1, 5)))
    orphan = shelf.put("news")
    acl, _ = shelf.raw.get_acls(shelf.root)
    shelf.raw.set_acls(shelf.root, [make_acl("world", "anyone", read=True, admin=True)])
    try:
        ran = shelf.admin.run("metadata", "check")
        assert (ran.code, "not checked: orphan-ledger" in ran.err, "NoAuthError" in ran.err) == (0, True, True), ran
        named = shelf.admin.run("ledger", "delete-orphans", "--yes")
        assert (named.code, "cannot look for orphan-ledger" in named.err) == (1, True), named
    finally:
        shelf.raw.set_acls(shelf.root, acl)
    assert orphan in shelf.ids()


def test_prefix_narrows_orphans_to_ledgers_of_its_topics(shelf: Shelf) -> None:
    set_ranges(shelf.admin.url, "a/1", ranges((shelf.put("a/1"), 1, 5)))
    orphan, other = shelf.put("a/2"), shelf.put("b/1")
    shelf.put(None)
    assert [row["ledger_ids"] for row in check(shelf, "--prefix", "a/")] == [[orphan]]
    shelf.admin.done("metadata", "repair", "--yes", "--prefix", "a/")
    assert orphan not in shelf.ids()
    assert other in shelf.ids()


def test_without_a_named_cluster_every_ledger_may_be_somebody_elses(shelf: Shelf) -> None:
    shelf.admin.environment["HEDWIG_CLUSTER"] = ""
    set_ranges(shelf.admin.url, "news", ranges((shelf.put("news"), 1, 5)))
    orphan = shelf.put("news")
    (row,) = check(shelf)
    assert (row["ledger_ids"], row["repairable"], "--cluster URL" in row["what"]) == ([orphan], False, True)
    shelf.admin.done("metadata", "repair", "--yes")
    assert orphan in shelf.ids()


def test_store_that_refers_to_no_ledger_at_all_is_not_believed(shelf: Shelf) -> None:
    """Otherwise the wrong --metadata would delete every ledger of the deployment."""
    orphan = shelf.put("news")
    (row,) = check(shelf)
    assert (row["repairable"], "--metadata" in row["repair"]) == (False, True)
    shelf.admin.done("metadata", "repair", "--yes")
    assert shelf.ids() == {orphan}


def test_ledgers_of_a_topic_whose_record_cannot_be_read_are_kept(shelf: Shelf) -> None:
    set_ranges(shelf.admin.url, "other", ranges((shelf.put("other"), 1, 5)))
    ledger_id = shelf.put("news")
    set_ranges(shelf.admin.url, "news", ranges((ledger_id, 1, 5)))
    shelf.admin.query("UPDATE persistence SET record = x'ff' WHERE topic = CAST('news' AS BLOB)")
    (row,) = [row for row in check(shelf) if row["kind"] == "orphan-ledger"]
    assert (row["ledger_ids"], row["repairable"]) == ([ledger_id], False)
    ran = shelf.admin.run("metadata", "repair", "--yes")
    assert (ran.code, "1 of them critical" in ran.err) == (2, True)
    assert ledger_id in shelf.ids()


def test_very_many_ledgers_are_met_once_each(shelf: Shelf) -> None:
    """Use more than a page of ledgers, with ids beyond 31 bits too."""
    kept = [shelf.put("news") for _ in range(150)] + [shelf.put("news", ledger_id=(1 << 40) + 1)]
    set_ranges(
        shelf.admin.url, "news", ranges(*((each, 5 * index + 1, 5 * index + 5) for index, each in enumerate(kept)))
    )
    orphans = [shelf.put("news") for _ in range(150)] + [shelf.put("news", ledger_id=(1 << 40) + 2)]
    assert [row["ledger_ids"][0] for row in check(shelf)] == sorted(orphans)


def _log(shelf: Shelf, **fields: Any) -> int:
    """Make the record of a log, and return its number."""

    async def make(store: MetadataStore) -> int:
        logs = KeptLogRecords(store.named_records)
        record = await logs.create(HubInfo(host="127.0.0.1", port=9, epoch=7))
        assert await logs.replace(record, record.changed(**fields))
        return record.number

    return in_store(shelf.admin.url, make)


def _remove_log(shelf: Shelf, number: int) -> None:
    async def remove(store: MetadataStore) -> None:
        logs = KeptLogRecords(store.named_records)
        record = await logs.read(number)
        assert record is not None
        assert await logs.delete(record)

    in_store(shelf.admin.url, remove)


def _damage_log(shelf: Shelf, number: int) -> None:
    async def damage(store: MetadataStore) -> None:
        (name,) = (each for each in await store.named_records.names("log-") if each.endswith(f"{number}"))
        stored = await store.named_records.read(name)
        assert stored is not None
        assert await store.named_records.replace(name, stored, stored[:-1])

    in_store(shelf.admin.url, damage)


def test_ledgers_of_logs_are_orphans_once_no_record_names_them_and_no_hub_can_add_them(shelf: Shelf) -> None:
    set_ranges(shelf.admin.url, "news", ranges((shelf.put("news"), 1, 5)))
    segment, footer, listed, dropped = (shelf.put(None, log=1) for _ in range(4))
    named = {
        "segments": (Segment(ledger=segment, footer=footer, lowest_slot=1, highest_slot=1, records=1, size=1),),
        "dropped": (DroppedLedger(dropped, 0),),
    }
    removed = _log(shelf)
    closed = _log(shelf, state=LogState.CLOSED, **named)
    opened = _log(shelf, listed=(listed,))
    _remove_log(shelf, removed)
    young = shelf.put(None, log=closed, age_s=HOUR_S - 60)
    of_removed, of_closed, of_opened = (shelf.put(None, log=each) for each in (removed, closed, opened))
    of_nobody, elsewhere = shelf.put(None, log=9), shelf.put(None, log=closed, deployment="zookeeper://other/hedwig/eu")
    rows = {row["ledger_ids"][0]: row for row in check(shelf)}
    assert {ledger_id: (row["kind"], row["severity"], row["repairable"]) for ledger_id, row in rows.items()} == {
        of_removed: ("orphan-ledger", "warning", True),
        of_closed: ("orphan-ledger", "warning", True),
        of_opened: ("orphan-ledger", "note", False),
        of_nobody: ("orphan-ledger", "note", False),
        elsewhere: ("orphan-ledger", "note", False),
    }
    assert f"for log {closed}, whose record does not name it" in rows[of_closed]["what"]
    assert f"while log {opened} is open" in rows[of_opened]["repair"]
    assert "has counted 3 logs" in rows[of_nobody]["repair"]
    before = shelf.ids()
    shelf.admin.done("ledger", "delete-orphans", "--yes")
    assert shelf.ids() == before - {of_removed, of_closed}
    assert {segment, footer, listed, dropped, young} <= shelf.ids()


# ---------------------------------------------------------------------------------------------------------------- races


async def test_ledger_that_came_on_record_after_the_look_is_kept(shelf: Shelf) -> None:
    await asyncio.to_thread(set_ranges, shelf.admin.url, "other", ranges((1 << 40, 1, 5)))
    ledger_id = await asyncio.to_thread(shelf.put, "news")
    async with shelf.around() as around:
        (finding,) = await _orphans(around)
        await around.store.persistence.write(Topic(b"news"), ranges((ledger_id, 1, 5)), NEW)
        repair = StoreRepair(around.store, around.verdicts, around.known)
        assert await repair.carry_out(finding) is RepairResult.CHANGED
    assert await asyncio.to_thread(shelf.ids) == {ledger_id}


async def test_ledger_that_somebody_changed_after_the_look_is_kept(shelf: Shelf) -> None:
    await asyncio.to_thread(set_ranges, shelf.admin.url, "other", ranges((1 << 40, 1, 5)))
    ledger_id = await asyncio.to_thread(shelf.put, "news", entries=None)
    async with shelf.around() as around:
        (finding,) = await _orphans(around)

        async def close(ledgers: ZookeeperLedgerMetadata) -> None:
            held = await ledgers.read(ledger_id)
            await ledgers.write(ledger_id, held.value.closed(4, 20), held.version)

        await shelf.with_ledgers(close)
        repair = StoreRepair(around.store, around.verdicts, around.known)
        assert await repair.carry_out(finding) is RepairResult.CHANGED
    assert await asyncio.to_thread(shelf.ids) == {ledger_id}


@pytest.mark.parametrize("owner", [None, DEAD], ids=["nobody's", "dead owner"])
async def test_hub_that_slept_since_it_made_a_ledger_cannot_put_it_on_record_any_more(
    shelf: Shelf, owner: HubInfo | None
) -> None:
    await asyncio.to_thread(set_ranges, shelf.admin.url, "other", ranges((1 << 40, 1, 5)))
    orphan = await asyncio.to_thread(shelf.put, "news")
    async with shelf.around() as around:
        store: MetadataStore = around.store
        known_to_the_sleeper = await store.persistence.write(Topic(b"news"), ranges(), NEW)
        if owner is not None:
            await store.ownership.write(Topic(b"news"), owner, NEW)
        (finding,) = await _orphans(around)
        repair = StoreRepair(store, around.verdicts, around.known)
        assert await repair.carry_out(finding) is RepairResult.REPAIRED
        with pytest.raises(BadVersionError):
            await store.persistence.write(Topic(b"news"), ranges((orphan, 1, None)), known_to_the_sleeper)
    assert await asyncio.to_thread(shelf.ids) == set()


async def test_hub_that_slept_since_it_merged_segments_cannot_put_them_on_record_any_more(shelf: Shelf) -> None:
    await asyncio.to_thread(set_ranges, shelf.admin.url, "other", ranges((1 << 40, 1, 5)))
    number = await asyncio.to_thread(_log, shelf, state=LogState.CLOSED)
    merged = await asyncio.to_thread(shelf.put, None, log=number)
    async with shelf.around() as around:
        logs = KeptLogRecords(around.store.named_records)
        seen = await logs.read(number)
        assert seen is not None
        sleeper = HeldRecord(logs, seen, is_judged=True)
        (finding,) = await _orphans(around)
        repair = StoreRepair(around.store, around.verdicts, around.known)
        assert await repair.carry_out(finding) is RepairResult.REPAIRED
        segment = Segment(ledger=merged, footer=merged, lowest_slot=1, highest_slot=1, records=1, size=1)
        with pytest.raises(LogTakenOverError):
            await sleeper.change(lambda record: record.changed(segments=(segment,)))
    assert await asyncio.to_thread(shelf.ids) == set()


async def test_ledger_that_a_log_names_since_the_look_is_kept(shelf: Shelf) -> None:
    await asyncio.to_thread(set_ranges, shelf.admin.url, "other", ranges((1 << 40, 1, 5)))
    number = await asyncio.to_thread(_log, shelf, state=LogState.CLOSED)
    merged = await asyncio.to_thread(shelf.put, None, log=number)
    async with shelf.around() as around:
        (finding,) = await _orphans(around)
        logs = KeptLogRecords(around.store.named_records)
        seen = await logs.read(number)
        assert seen is not None
        segment = Segment(ledger=merged, footer=merged, lowest_slot=1, highest_slot=1, records=1, size=1)
        assert await logs.replace(seen, seen.changed(segments=(segment,)))
        repair = StoreRepair(around.store, around.verdicts, around.known)
        assert await repair.carry_out(finding) is RepairResult.CHANGED
    assert await asyncio.to_thread(shelf.ids) == {merged}


# -------------------------------------------------------------------------------------------------------------- missing


def test_missing_ledgers_are_told_but_for_emptied_ones(shelf: Shelf) -> None:
    there, gone = shelf.put("news"), 1 << 40
    set_ranges(shelf.admin.url, "news", ranges((gone, 1, 5), (there, 6, 10)))
    set_ranges(shelf.admin.url, "consumed", ranges((gone + 1, 6, 5)))
    (row,) = check(shelf)
    assert (row["kind"], row["topic"], row["ledger_ids"], row["severity"]) == (
        "missing-ledger",
        "news",
        [gone],
        "critical",
    )


def test_what_logs_do_not_have_is_missing(shelf: Shelf) -> None:
    set_ranges(shelf.admin.url, "other", ranges((shelf.put("other"), 1, 5)))
    removed, empty, opened = _log(shelf), _log(shelf, state=LogState.CLOSED), _log(shelf)
    lost = Segment(ledger=1 << 40, footer=1 << 40, lowest_slot=3, highest_slot=4, records=9, size=9)
    damaged = _log(shelf, segments=(lost,))
    _remove_log(shelf, removed)
    for log in (removed, empty):
        set_ranges(shelf.admin.url, f"late/{log}", ranges((virtual_id(log, 1), 1, None)))
        set_ranges(shelf.admin.url, f"emptied/{log}", ranges((virtual_id(log, 2), 6, 5)))
        set_ranges(shelf.admin.url, f"lost/{log}", ranges((virtual_id(log, 3), 6, 10)))
    set_ranges(shelf.admin.url, "written", ranges((virtual_id(opened, 1), 1, 5), (virtual_id(opened, 2), 6, None)))
    set_ranges(shelf.admin.url, "beside", ranges((virtual_id(damaged, 2), 1, 5)))
    set_ranges(shelf.admin.url, "inside", ranges((virtual_id(damaged, 3), 1, None)))
    set_ranges(shelf.admin.url, "never", ranges((virtual_id(7, 1), 1, 5)))
    rows = check(shelf, "--kind", "missing-ledger")
    assert {row["topic"] for row in rows} == {f"lost/{removed}", f"lost/{empty}", "inside", "never"}
    whats = {row["topic"]: row["what"] for row in rows}
    assert f"slot 3 of log {empty}): its log lacks message 6" in whats[f"lost/{empty}"]
    assert f"ledger {1 << 40} of a segment does not exist" in whats["inside"]
    assert f"slot 1 of log 7) is on record, and not in zookeeper://{shelf.zookeeper}{shelf.root}" in whats["never"]


def test_damaged_record_of_a_log_is_told_and_does_not_hide_what_other_logs_lack(shelf: Shelf) -> None:
    damaged, empty = _log(shelf), _log(shelf, state=LogState.CLOSED)
    set_ranges(shelf.admin.url, "inside", ranges((virtual_id(damaged, 1), 1, 5)))
    set_ranges(shelf.admin.url, "lost", ranges((virtual_id(empty, 1), 1, 5)))
    of_damaged, of_empty = shelf.put(None, log=damaged), shelf.put(None, log=empty)
    _damage_log(shelf, damaged)
    rows = check(shelf)
    assert [(row["kind"], row["topic"], row["ledger_ids"], row["repairable"]) for row in rows] == [
        ("missing-ledger", "lost", [virtual_id(empty, 1)], True),
        ("unreadable-record", None, [], False),
        ("orphan-ledger", None, [of_empty], True),
    ]
    assert f"log {damaged}: a log's record cannot be read" in rows[1]["what"]
    listed = shelf.admin.run("ledger", "logs", "-o", "ndjson", "--all")
    assert [(row["log"], row["state"]) for row in listed.rows] == [(damaged, "unreadable"), (empty, "closed")]
    assert f"log {damaged}: a log's record cannot be read" in listed.err
    assert shelf.admin.run("metadata", "repair", "--yes").code == 2, "criticals are left"
    assert of_damaged in shelf.ids()
    assert of_empty not in shelf.ids()


def test_ends_are_mended_by_what_closed_ledgers_hold(shelf: Shelf) -> None:
    one, two = shelf.put("news", entries=8), shelf.put("news", entries=None)
    set_ranges(shelf.admin.url, "news", ranges((one, 1, 5), (two, 9, None)))
    shelf.admin.done("metadata", "repair", "--yes")
    assert shelf.admin.run("metadata", "check").code == 0
    assert contents(shelf.admin.url)["persistence", b"news", None] == ranges((one, 1, 8), (two, 9, None))


@pytest.mark.servers
def test_ledgers_of_a_cluster_that_has_none_there_are_said_to_be_unknown(admin: Admin, tmp_path: Path) -> None:
    own = RunningServers(tmp_path / "servers")
    try:
        # In the shared ZooKeeper, bookies of the original may have used the default path.
        zookeeper = own.address("zookeeper")
        admin.environment["HEDWIG_CLUSTER"] = f"zookeeper://{zookeeper}/hedwig/none"
        set_ranges(admin.url, "news", ranges((1, 1, 5)))
        ran = admin.run("metadata", "check")
        assert (ran.code, "not checked: missing-ledger, orphan-ledger" in ran.err) == (0, True), ran
        named = admin.run("metadata", "check", "--kind", "orphan-ledger")
        assert (named.code, "--bookkeeper URL" in named.err) == (3, True)
        wrong = admin.run("metadata", "check", "--bookkeeper", f"zookeeper://{zookeeper}/no/such")
        assert (wrong.code, "/no/such/LAYOUT" in wrong.err) == (3, True)
    finally:
        own.down()


def test_random_stores_agree_with_a_plain_look_at_everything(shelf: Shelf) -> None:
    chance = Random(3)
    topics = [f"t/{number}" for number in range(12)]
    marked = {shelf.put(chance.choice(topics)): None for _ in range(60)}
    on_record: set[int] = set()
    for topic in topics:
        mine = [each for each in marked if chance.random() < 0.05] + [(1 << 41) + chance.randrange(99)]
        parts = [(each, 5 * index + 1, 5 * index + 5) for index, each in enumerate(mine)]
        set_ranges(shelf.admin.url, topic, ranges(*parts))
        on_record.update(mine)
    rows = check(shelf)
    orphans = {row["ledger_ids"][0] for row in rows if row["kind"] == "orphan-ledger"}
    missing = {each for row in rows if row["kind"] == "missing-ledger" for each in row["ledger_ids"]}
    assert orphans == marked.keys() - on_record
    assert missing == on_record - marked.keys()
