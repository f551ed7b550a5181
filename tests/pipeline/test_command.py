"""The jobs as users run them, on SQLite, in the session of the tests: what they print, and how they end."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from msgpack import packb
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hedwig.errors import MetadataUnavailableError, UncertainStateError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore, RecordKey
from hedwig.model import (
    LedgerRanges,
    MessageSeqId,
    SubscriberId,
    SubscriptionData,
    SubscriptionState,
    Topic,
    UnknownFields,
)
from hedwig.pipeline.errors import explain
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.main import jobs
from hedwig.pipeline.snapshots.snapshot import Snapshot
from hedwig.versions import ANY, NEW
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import new_store, records, with_store
from tests.support.checkout import CHECKOUT


def _change(store_url: str, topic: bytes, subscriber: bytes, consumed: int) -> None:
    async def change(store: MetadataStore) -> None:
        data = SubscriptionData(state=SubscriptionState(MessageSeqId(consumed)))
        await store.subscriptions.update(Topic(topic), SubscriberId(subscriber), data, ANY)

    with_store(store_url, change)


def _contents(url: str, table: Table) -> dict[RecordKey, Any]:
    return {key: stored.value for key, stored in records(url, table).items()}


def test_names_are_loaded_snapshotted_restored_and_compared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_bytes(b"libs/libc6\t2.36\nst\xc3\xa4dte\n\\xff\\x00raw\nback\\\\slash\tx\ty\n")
    with gzip.open(tmp_path / "subscriptions.tsv.gz", "wb") as lines:
        lines.write(b"libs/libc6\tbash\textra\nlibs/libc6\tcoreutils\nnew\tme\nlibs/libc6\tbash\n")
    first, second = new_store(tmp_path, "first"), new_store(tmp_path, "second")
    files = ("--topics", tmp_path / "topics.tsv", "--subscriptions", tmp_path / "subscriptions.tsv.gz")

    loaded = run("load", first, *files)
    assert (loaded["tables"]["topics"]["created"], loaded["tables"]["subscriptions"]["created"]) == (5, 3)
    names = {b"libs/libc6", "städte".encode(), b"\xff\x00raw", b"back\\slash", b"new"}
    assert {key.topic for key in records(first, Table.TOPICS)} == names
    again = run("load", first, *files)
    assert (again["tables"]["topics"]["same"], again["tables"]["subscriptions"]["same"]) == (5, 3)

    snapshot = tmp_path / "snapshot"
    taken = run("snapshot", first, snapshot)
    assert taken["tables"] == {"ledgers": 5, "subscriptions": 3, "owners": 0}
    restored = run("restore", snapshot, second)
    assert restored["verified"] is True
    assert restored["tables"]["subscriptions"]["created"] == 3
    for table in (Table.LEDGERS, Table.SUBSCRIPTIONS):
        assert _contents(first, table) == _contents(second, table)
    assert run("diff", snapshot, second)["differences"] == 0
    assert run("restore", snapshot, second)["tables"]["subscriptions"]["same"] == 3

    _change(second, b"new", b"me", 7)
    differing = run("diff", first, second, "--into", tmp_path / "differences", code=ExitCode.FAILED)
    assert differing["tables"]["subscriptions"] == {"added": 0, "removed": 0, "changed": 1}
    assert differing["some"] == [
        {"change": "changed", "table": "subscriptions", "topic": "new", "subscriber": "me", "what": "state"}
    ]
    kept = run("restore", snapshot, second, code=ExitCode.VERSION_CONFLICT)
    assert kept["tables"]["subscriptions"]["conflict"] == 1
    assert kept["tables"]["subscriptions"]["same"] == 2
    key = RecordKey(Topic(b"new"), SubscriberId(b"me"))
    assert records(second, Table.SUBSCRIPTIONS)[key].value.state.consumed.local == 7


def test_generated_metadata_is_loaded_audited_and_migrated(run: Run, tmp_path: Path) -> None:
    made = tmp_path / "made"
    counts = run("generate", made, "--topics", 200, "--subscriptions", 600, "--with-history", "--hubs", 2)["tables"]
    source, target = new_store(tmp_path, "source"), new_store(tmp_path, "target")
    run("load", source, "--from", made, "--with-owners")
    assert {table.value: len(records(source, table)) for table in (Table.LEDGERS, Table.OWNERS)} == {
        "ledgers": 200,
        "owners": counts["owners"],
    }

    audit = tmp_path / "audit"
    alive = [f"--hub=hub-{number:03}.example:4080:-1@{number * 1000 + 2}" for number in range(2)]
    result = run("audit", source, audit, *alive)
    stale = [hub for hub in result["hubs"] if not hub["is_alive"]]
    assert result["findings"]["dead-owner"] == sum(hub["topics"] for hub in stale)
    assert result["findings"]["range-gap"] == result["findings"]["lone-subscription"] == 0
    assert result["rows"]["subscriptions"] == 600
    assert (audit / "audit.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((audit / "audit.json").read_text())["rows"] == result["rows"]
    assert run("audit", audit / "snapshot", tmp_path / "again", *alive)["findings"] == result["findings"]

    moved = run("migrate", source, target, "--through", tmp_path / "through", "--with-owners")
    assert moved["verified"] is True
    for table in (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS):
        assert _contents(source, table) == _contents(target, table)
    assert run("diff", tmp_path / "through", target, "--with-owners")["differences"] == 0


@pytest.mark.full
def test_a_restore_into_a_store_with_other_records_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("a\nb\n")
    (tmp_path / "two.tsv").write_text("b\nc\nd\n")
    first, second = new_store(tmp_path, "first"), new_store(tmp_path, "second")
    run("load", first, "--topics", tmp_path / "one.tsv")
    run("load", second, "--topics", tmp_path / "two.tsv")
    run("snapshot", first, tmp_path / "snapshot", "--without-owners")
    restored = run("restore", tmp_path / "snapshot", second)
    assert (restored["verified"], restored["others_in_store"]) == (True, {"ledgers": 2})


@pytest.mark.full
def test_a_part_of_a_store_is_snapshotted_by_prefix_and_restored(run: Run, tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("a/1\nb/1\nb/2\n")
    first, second = new_store(tmp_path, "first"), new_store(tmp_path, "second")
    run("load", first, "--topics", tmp_path / "all.tsv")
    run("snapshot", first, tmp_path / "snapshot", "--prefix", "b/")
    assert run("restore", tmp_path / "snapshot", second)["rows"] == 2
    assert {key.topic for key in records(second, Table.TOPICS)} == {b"b/1", b"b/2"}


@pytest.mark.full
def test_a_part_is_compared_with_the_same_part(run: Run, tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("a/1\nb/1\nb/2\n")
    store = new_store(tmp_path)
    run("load", store, "--topics", tmp_path / "all.tsv")
    part, other, whole = (tmp_path / name for name in ("part", "other", "whole"))
    run("snapshot", store, part, "--prefix", "b/", "--without-owners")
    run("snapshot", store, other, "--prefix", "a/")
    run("snapshot", store, whole)
    for one, another in ((part, store), (whole, part)):
        result = run("diff", one, another)
        assert (result["differences"], result["prefix"]) == (0, "b/")
    assert run("diff", whole, store)["prefix"] is None
    assert "different parts, of topics that begin with 'a/' and 'b/'" in run("diff", part, other, code=ExitCode.USAGE)
    said = run("diff", store, part, "--with-owners", code=ExitCode.USAGE)
    assert f"{part} has no owners to compare" in said
    audited = run("audit", part, tmp_path / "audit")
    assert audited["prefix"] == "b/"
    assert "<dt>topics that begin with</dt><dd>b/</dd>" in (tmp_path / "audit" / "audit.html").read_text()
    assert json.loads((tmp_path / "audit" / "audit.json").read_text())["prefix"] == "b/"


@pytest.mark.full
def test_a_diff_tells_how_far_it_has_come_from_the_first_file_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []
    under: list[str] = []

    @contextmanager
    def recorded(_spark: object, title: str, **_: object) -> Iterator[None]:
        titles.append(title)
        yield
        titles.pop()

    verify = Snapshot.verify

    def verified(snapshot: Snapshot) -> None:
        under.append(titles[-1] if titles else "nothing")
        verify(snapshot)

    store = new_store(tmp_path)
    run("snapshot", store, tmp_path / "snapshot")
    monkeypatch.setattr("hedwig.pipeline.progress.progress", recorded)
    monkeypatch.setattr(Snapshot, "verify", verified)
    run("diff", tmp_path / "snapshot", store)
    assert under == ["diff: checking snapshots"]


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_page_that_cannot_be_made_is_told_before_the_work(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    # Otherwise the job would report next that the source does not exist.
    assert f"jobs need {missing}" in run("audit", tmp_path / "nowhere", tmp_path / "target", code=ExitCode.USAGE)


def test_an_audit_looks_at_its_options_before_it_reads_anything(run: Run, tmp_path: Path) -> None:
    store, full = new_store(tmp_path), tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("mine")
    nobody = "zookeeper://127.0.0.1:1/ledgers"
    for option, code, words in (
        (("--hub", "one"), ExitCode.USAGE, "'one' is no incarnation of a hub"),
        (("--data", tmp_path / "nowhere"), ExitCode.USAGE, "nowhere; name the data directory of the hub"),
        (("--bookkeeper", "zookeper://127.0.0.1:1/ledgers"), ExitCode.USAGE, "it must be like zookeeper://host"),
        (("--bookkeeper", nobody, "--timeout", 1), ExitCode.UNAVAILABLE, f"the ledgers at {nobody} cannot be listed"),
    ):
        # The job reports a folder that is not empty once Spark has started, before it reads a store.
        assert words in run("audit", store, full, *option, code=code), option
    assert "nothing is overwritten" in run("audit", store, full, code=ExitCode.USAGE)


def _topics_of(spark: SparkSession, made: Path, table: str) -> None:
    """Add a folder `topics`, which snapshots do not have, with the topics of another table."""
    spark.read.parquet(f"{made}/{table}").select("topic").distinct().write.parquet(f"{made}/topics")


@pytest.mark.full
@pytest.mark.parametrize("how", [(), ("--policy", "overwrite", "--hubs-stopped")], ids=["create", "overwrite"])
def test_topics_beside_ledgers_cost_no_ledger(
    run: Run, spark: SparkSession, tmp_path: Path, how: tuple[str, ...]
) -> None:
    made = tmp_path / "made"
    run("generate", made, "--topics", 50, "--subscriptions", 60, "--with-history")
    (made / "manifest.json").unlink()
    _topics_of(spark, made, "ledgers")
    store = new_store(tmp_path)
    tables = run("load", store, "--from", made, *how)["tables"]
    assert list(tables) == ["ledgers", "topics", "subscriptions"]
    assert tables["topics"]["same"] == tables["ledgers"]["replaced" if how else "created"] == 50
    assert any(stored.value.ranges for stored in records(store, Table.LEDGERS).values())


@pytest.mark.parametrize("policy", [pytest.param("replace", marks=pytest.mark.full), "overwrite"])
def test_topics_alone_are_created_and_nothing_else(run: Run, spark: SparkSession, tmp_path: Path, policy: str) -> None:
    (tmp_path / "topics.tsv").write_text("a\n")
    store, made = new_store(tmp_path), tmp_path / "made"
    spark.createDataFrame([(b"b",)], "topic binary").write.parquet(f"{made}/topics")
    for source in (("--topics", tmp_path / "topics.tsv"), ("--from", made)):
        said = run("load", store, *source, "--policy", policy, "--hubs-stopped", code=ExitCode.USAGE)
        assert f"leave out --policy {policy}" in said
    assert records(store, Table.TOPICS) == {}


@pytest.mark.full
def test_overwriting_demands_that_there_are_no_topics_either(run: Run, tmp_path: Path) -> None:
    (tmp_path / "topics.tsv").write_text("there\n")
    (tmp_path / "subscriptions.tsv").write_text("new\tme\n")
    store = new_store(tmp_path)
    run("load", store, "--topics", tmp_path / "topics.tsv")
    overwrite = ("load", store, "--subscriptions", tmp_path / "subscriptions.tsv", "--policy", "overwrite")
    assert "needs an empty target" in run(*overwrite, "--hubs-stopped", code=ExitCode.USAGE)
    assert "stop all hubs of the store" in run(*overwrite, code=ExitCode.USAGE)
    assert {key.topic for key in records(store, Table.TOPICS)} == {b"there"}
    assert records(store, Table.SUBSCRIPTIONS) == {}
    written = run("load", new_store(tmp_path, "empty"), *overwrite[2:], "--hubs-stopped")["tables"]
    assert (written["topics"]["created"], written["subscriptions"]["replaced"]) == (1, 1)


@pytest.mark.full
def test_half_a_snapshot_is_loaded_by_nothing(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    made, store = tmp_path / "made", new_store(tmp_path)
    run("generate", made, "--topics", 30, "--subscriptions", 60, "--with-history")
    part = next((made / "subscriptions").glob("*.parquet"))
    kept = part.read_bytes()
    part.unlink()
    assert "files are missing or were added" in run("load", store, "--from", made, code=ExitCode.FAILED)
    part.write_bytes(kept)
    (made / "manifest.json").rename(tmp_path / "manifest.json")
    (made / "_UNFINISHED-1").touch()
    assert "a snapshot that was not finished" in run("load", store, "--from", made, code=ExitCode.FAILED)
    (made / "_UNFINISHED-1").unlink()
    (made / "subscriptions" / "_SUCCESS").unlink()
    said = run("load", store, "--from", made, code=ExitCode.FAILED)
    assert "subscriptions has no _SUCCESS, which Spark leaves when all is written" in said
    assert records(store, Table.TOPICS) == {}
    (made / "subscriptions" / "_SUCCESS").touch()
    assert run("load", store, "--from", made)["rows"] == 90
    (tmp_path / "manifest.json").rename(made / "manifest.json")
    again = run("load", store, "--from", made)["tables"]
    assert (again["ledgers"]["same"], again["subscriptions"]["same"]) == (30, 60)
    (made / "topics").mkdir()
    assert "has topics beside the snapshot" in run("load", store, "--from", made, code=ExitCode.FAILED)


def test_a_damaged_snapshot_changes_nothing(run: Run, tmp_path: Path) -> None:
    made, store = tmp_path / "made", new_store(tmp_path)
    run("generate", made, "--topics", 30, "--subscriptions", 60)
    part = next((made / "subscriptions").glob("*.parquet"))
    part.with_name(f".{part.name}.crc").unlink()
    part.write_bytes(part.read_bytes()[:-20])
    assert "it is damaged, use another copy" in run("restore", made, store, code=ExitCode.FAILED)
    assert records(store, Table.LEDGERS) == records(store, Table.SUBSCRIPTIONS) == {}


@pytest.mark.full
def test_a_migration_goes_on_with_the_snapshot_that_it_has(run: Run, tmp_path: Path) -> None:
    made, through = tmp_path / "made", tmp_path / "through"
    run("generate", made, "--topics", 30, "--subscriptions", 60)
    source, target = new_store(tmp_path, "source"), new_store(tmp_path, "target")
    run("load", source, "--from", made)
    run("snapshot", source, through, "--without-owners")
    # As if the first run had ended while it wrote: some rows are there, the others are not. The second run does not
    # read the source again.
    key = next(iter(records(source, Table.SUBSCRIPTIONS)))
    assert key.subscriber is not None
    _change(source, key.topic, key.subscriber, 9)
    first = run("migrate", source, target, "--through", through)
    assert (first["verified"], first["rows"], first["read"][:2]) == (True, 90, "20")
    assert run("diff", through, target)["differences"] == 0
    again = run("migrate", source, target, "--through", through)["tables"]
    assert (again["ledgers"]["same"], again["subscriptions"]["same"]) == (30, 60)
    for arguments in (
        (source, target, "--through", through, "--prefix", "a"),
        (source, target, "--through", through, "--with-owners"),
        (target, source, "--through", through),
    ):
        said = run("migrate", *arguments, code=ExitCode.USAGE)
        assert f"hedwig-pipeline restore {through} {arguments[1]}" in said
    next((through / "ledgers").glob("*.parquet")).unlink()
    said = run("migrate", source, target, "--through", through, code=ExitCode.FAILED)
    assert f"remove {through} and run the same job again" in said


def test_overwriting_changes_nothing_where_any_table_is_full(run: Run, tmp_path: Path) -> None:
    made, target = tmp_path / "made", new_store(tmp_path, "target")
    run("generate", made, "--topics", 30, "--subscriptions", 60)
    (tmp_path / "lone.tsv").write_text("lone\tme\n")
    with_store(target, _subscribe)
    overwrite = ("--policy", "overwrite", "--hubs-stopped")
    said = run("restore", made, target, *overwrite, code=ExitCode.USAGE)
    assert "which also finishes what an overwriting job has begun" in said
    assert records(target, Table.LEDGERS) == {}
    for error, words in (
        (UncertainStateError("lost"), "run it again with --policy create; rows that were written stay"),
        (MetadataUnavailableError("down"), "see that the store is up, then run it again with --policy create"),
    ):
        assert words in explain(error, "run it again with --policy create")[0]


async def _subscribe(store: MetadataStore) -> None:
    await store.subscriptions.create(Topic(b"lone"), SubscriberId(b"me"), SubscriptionData())


@pytest.mark.full
def test_an_overwriting_job_that_ended_is_gone_on_with_by_creating(
    run: Run, spark: SparkSession, tmp_path: Path
) -> None:
    made, target = tmp_path / "made", new_store(tmp_path, "target")
    run("generate", made, "--topics", 30, "--subscriptions", 60)
    (made / "manifest.json").unlink()
    overwrite = ("--policy", "overwrite", "--hubs-stopped")
    folder = made / "subscriptions"
    right = folder.rename(tmp_path / "right")
    # The job finds a wrong type before it writes anything, and damage only when it reads that table.
    spark.read.parquet(str(right)).withColumn("state", F.lit("none")).write.parquet(str(folder))
    assert "cast it" in run("load", target, "--from", made, *overwrite, code=ExitCode.USAGE)
    assert records(target, Table.LEDGERS) == {}
    shutil.rmtree(folder)
    shutil.copytree(right, folder)
    part = next(folder.glob("*.parquet"))
    part.write_bytes(bytes([*part.read_bytes()[:40], 0xFF, *part.read_bytes()[41:]]))
    run("load", target, "--from", made, *overwrite, code=ExitCode.FAILED)
    assert len(records(target, Table.LEDGERS)) == 30
    shutil.rmtree(folder)
    right.rename(folder)
    assert "needs an empty target" in run("load", target, "--from", made, *overwrite, code=ExitCode.USAGE)
    tables = run("load", target, "--from", made, "--policy", "create")["tables"]
    assert (tables["ledgers"]["same"], tables["subscriptions"]["created"]) == (30, 60)


@pytest.mark.full
def test_copies_say_what_they_lack(run: Run, tmp_path: Path) -> None:
    source, target = new_store(tmp_path, "source"), new_store(tmp_path, "target")

    async def fill(store: MetadataStore) -> None:
        newer = LedgerRanges(unknown=UnknownFields("msgpack", packb({"zz": 1})))
        await store.persistence.write(Topic(b"newer"), newer, NEW)
        await store.persistence.write(Topic(b"plain"), LedgerRanges(), NEW)

    with_store(source, fill)
    lost = {"ledgers": 1}
    assert run("snapshot", source, tmp_path / "snapshot")["unknown_fields"] == lost
    assert run("restore", tmp_path / "snapshot", target)["unknown_fields"] == lost
    assert run("migrate", source, target)["unknown_fields"] == lost
    assert "unknown_fields" not in run("snapshot", target, tmp_path / "whole")
    assert run("audit", source, tmp_path / "audit")["unknown_fields"] == lost
    assert json.loads((tmp_path / "audit" / "snapshot" / "manifest.json").read_text())["unknown_fields"] == lost
    assert run("audit", tmp_path / "snapshot", tmp_path / "again")["unknown_fields"] == lost


def test_what_cannot_work_is_one_line_and_an_exit_code(run: Run, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    (tmp_path / "bad.tsv").write_text("topic without a subscriber\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    nowhere, ownerless = tmp_path / "nowhere", tmp_path / "ownerless"
    run("generate", ownerless, "--topics", 1, "--subscriptions", 0)
    for arguments, code, words in (
        (("snapshot", "sqllite:///x", nowhere), ExitCode.USAGE, "no metadata backend for 'sqllite'"),
        (("snapshot", "hedwig.db", nowhere), ExitCode.USAGE, "has no scheme"),
        (
            ("snapshot", f"sqlite://{tmp_path}/mistyped.db", nowhere),
            ExitCode.NOT_FOUND,
            "mistyped.db: see that the URL",
        ),
        (("snapshot", "hbase://127.0.0.1:1/none", nowhere), ExitCode.UNAVAILABLE, "see that the store is up"),
        (("snapshot", store, tmp_path / "full"), ExitCode.USAGE, "nothing is overwritten"),
        (("restore", nowhere, store), ExitCode.NOT_FOUND, "does not exist"),
        (("restore", tmp_path / "full", store), ExitCode.NOT_FOUND, "no whole snapshot"),
        (("load", store, "--topics", nowhere), ExitCode.NOT_FOUND, "nowhere"),
        (("load", store, "--from", nowhere), ExitCode.NOT_FOUND, "no folder that is named"),
        (("load", store), ExitCode.USAGE, "give --from DIR"),
        (("load", store, "--topics", "x", "--with-owners"), ExitCode.USAGE, "leave out --with-owners, or give --from"),
        (("load", store, "--from", ownerless, "--with-owners"), ExitCode.USAGE, "has no owners"),
        (("restore", ownerless, store, "--with-owners"), ExitCode.USAGE, "was taken without owners"),
        (
            ("load", store, "--subscriptions", tmp_path / "bad.tsv"),
            ExitCode.USAGE,
            "the line 'topic without a subscriber' cannot be loaded: there is no second column",
        ),
        (("audit", store, tmp_path / "audit", "--hub", "one"), ExitCode.USAGE, "no incarnation of a hub"),
        (("migrate", store, store), ExitCode.USAGE, "the same store"),
        (("generate", nowhere, "--topics", "0"), ExitCode.USAGE, "0 is not in the range"),
        (("snapshot", store, nowhere, "--conf", "x"), ExitCode.USAGE, "is not KEY=VALUE"),
        (("generate", nowhere, "--seed", 1 << 64), ExitCode.USAGE, "is not in the range"),
        (
            ("generate", nowhere, "--topics", 1, "--subscriptions", 1 << 33),
            ExitCode.USAGE,
            "take fewer, or a lower zipf",
        ),
        (("load", store, "--topics", "x", "--batch-rows", 8193), ExitCode.USAGE, "8193 is not in the range"),
        (
            ("snapshot", store, nowhere, "--rows-per-partition", 10_000_001),
            ExitCode.USAGE,
            "10000001 is not in the range",
        ),
        (("load", store, "--topics", "x", "--connections", 65), ExitCode.USAGE, "65 is not in the range"),
        (("snapshot", store, f"{nowhere}[1]"), ExitCode.USAGE, "has [ ] in it, which Spark takes for a pattern"),
        (("generate", f"{nowhere}{{a,b}}"), ExitCode.USAGE, "has { } in it"),
        (("diff", f"{nowhere}*", store), ExitCode.USAGE, "has * in it"),
        (("diff", ownerless, store, "--into", f"{nowhere}?"), ExitCode.USAGE, "has ? in it"),
        (("restore", f"{nowhere}[", store), ExitCode.USAGE, "has [ in it"),
        (("migrate", store, new_store(tmp_path, "other"), "--through", f"{nowhere}["), ExitCode.USAGE, "has [ in it"),
        (("audit", "sqllite:///x", tmp_path / "audit"), ExitCode.USAGE, "'sqllite' is neither a metadata backend"),
        (("diff", ownerless, "zookeper://host/hedwig"), ExitCode.USAGE, "'zookeper' is neither a metadata backend"),
    ):
        assert words in run(*arguments, code=code), arguments
    assert not nowhere.exists()
    assert not (tmp_path / "mistyped.db").exists()
    assert not (tmp_path / "audit").exists(), "nothing half done stays"
    assert not (tmp_path / "report").exists()


@pytest.mark.full
def test_a_target_is_not_made_for_an_input_that_is_not_there(run: Run, tmp_path: Path) -> None:
    target, nowhere = f"sqlite://{tmp_path}/target.db", tmp_path / "nowhere"
    source = new_store(tmp_path, "source")
    through = tmp_path / "through"
    run("generate", through, "--topics", 1, "--subscriptions", 0)
    for job, code in (
        (("restore", nowhere, target), ExitCode.NOT_FOUND),
        (("load", target, "--from", nowhere), ExitCode.NOT_FOUND),
        (("load", target, "--topics", nowhere), ExitCode.NOT_FOUND),
        (("migrate", f"sqlite://{nowhere}.db", target), ExitCode.NOT_FOUND),
        (("migrate", source, target, "--through", through), ExitCode.USAGE),
    ):
        run(*job, code=code)
        assert not (tmp_path / "target.db").exists(), job
    for wrong, words in (
        (f"sqlite://{nowhere}/target.db", "does not exist"),
        (f"{target}?created=true", "have no parameter 'created'"),
    ):
        assert words in run("restore", through, wrong, code=ExitCode.USAGE)
    assert run("restore", through, target)["tables"]["ledgers"]["created"] == 1


def test_every_help_ends_in_an_example() -> None:
    assert isinstance(jobs, click.Group)
    for name in jobs.list_commands(click.Context(jobs)):
        command = jobs.get_command(click.Context(jobs), name)
        assert command is not None
        assert command.epilog is not None
        assert command.epilog.startswith(f"Example: hedwig-pipeline {name} ")
        assert command.help


def test_it_runs_as_the_file_that_spark_submit_is_given(tmp_path: Path) -> None:
    # Then its own folder is first on the path, and has a module that is named like one of Python's.
    script = CHECKOUT / "pipeline" / "__main__.py"
    arguments = [sys.executable, str(script), "snapshot", "sqllite:///x", str(tmp_path / "snapshot")]
    ran = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == ExitCode.USAGE, ran.stderr
    assert ran.stderr.startswith("error: no metadata backend for 'sqllite'")
