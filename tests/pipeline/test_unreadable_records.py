"""Prove that one unreadable record does not block the others: the job skips it, counts it and names it."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hedwig.exit_codes import ExitCode
from hedwig.metadata import RecordKey
from hedwig.metadata.bulk.findings import FindingKind
from hedwig.model import SubscriberId, Topic
from hedwig.pipeline.frames.tables import Table
from tests.pipeline.conftest import Run
from tests.pipeline.support.stores import break_one, new_store, records

BROKEN = Topic(b"broken")
SKIP = ("--on-corrupt", "skip")


@pytest.fixture
def damaged(run: Run, tmp_path: Path) -> str:
    """The URL of a store with three topics and subscriptions; the persistence record of one topic cannot be read."""
    (tmp_path / "topics.tsv").write_text("broken\nfine\nother\n")
    (tmp_path / "subscriptions.tsv").write_text("broken\tme\nfine\tme\nfine\tyou\n")
    url = new_store(tmp_path, "damaged")
    run("load", url, "--topics", tmp_path / "topics.tsv", "--subscriptions", tmp_path / "subscriptions.tsv")
    break_one(url, Table.LEDGERS, RecordKey(BROKEN))
    return url


@pytest.mark.full
def test_copies_pass_over_what_cannot_be_read_only_if_told_so_and_say_so(
    run: Run, tmp_path: Path, damaged: str
) -> None:
    target, moved, taken = new_store(tmp_path, "target"), new_store(tmp_path, "moved"), tmp_path / "taken"
    for job in (("snapshot", damaged, taken), ("migrate", damaged, moved), ("audit", damaged, tmp_path / "audit")):
        said = run(*job, code=ExitCode.FAILED)
        assert "the persistence record of topic 'broken'" in said
        assert "--on-corrupt skip passes over them" in said
    lost = {"ledgers": 1}
    snapshot = run("snapshot", damaged, taken, *SKIP)
    assert (snapshot["tables"], snapshot["unreadable"]) == ({"ledgers": 2, "subscriptions": 3, "owners": 0}, lost)
    restored = run("restore", taken, target)
    assert (restored["verified"], restored["unreadable"]) == (True, lost)
    assert any("1 records of ledgers could not be read" in text for text in restored["warnings"])
    migrated = run("migrate", damaged, moved, *SKIP)
    assert (migrated["verified"], migrated["unreadable"]) == (True, lost)
    assert {key.topic for key in records(moved, Table.LEDGERS)} == {b"fine", b"other"}


@pytest.mark.full
def test_an_audit_names_what_cannot_be_read_and_takes_it_for_there(
    run: Run, spark: SparkSession, tmp_path: Path, damaged: str
) -> None:
    break_one(damaged, Table.SUBSCRIPTIONS, RecordKey(Topic(b"fine"), SubscriberId(b"me")))
    audited = run("audit", damaged, tmp_path / "audit", *SKIP)
    assert audited["unreadable"] == {"ledgers": 1, "subscriptions": 2}
    assert audited["findings"]["unreadable-record"] == 3
    assert audited["findings"]["lone-subscription"] == 0, "the topic of a record that cannot be read exists"
    findings = spark.read.parquet(f"{tmp_path}/audit/findings").where(f"kind = '{FindingKind.UNREADABLE_RECORD}'")
    assert {(bytes(row["topic"]), row["subscriber"] and bytes(row["subscriber"])) for row in findings.collect()} == {
        (b"broken", None),
        (b"fine", b"me"),
        (b"fine", b"you"),
    }
    again = run("audit", tmp_path / "audit" / "snapshot", tmp_path / "again")
    assert (
        "1 records of ledgers, 2 records of subscriptions could not be read" in again["unchecked"]["unreadable-record"]
    )
    assert "lone-subscription" in again["unchecked"]
    with_ledgers = run("audit", damaged, tmp_path / "with ledgers", *SKIP, "--data", _data(tmp_path))
    assert "may refer to any ledger" in with_ledgers["unchecked"]["orphan-ledger"]


def _data(folder: Path) -> Path:
    """Return the data directory of a hub without ledgers."""
    made = folder / "data"
    (made / "ledgers").mkdir(parents=True)
    return made


@pytest.mark.full
def test_a_store_without_such_records_has_none(run: Run, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for how in ((), SKIP):
        audited = run("audit", store, tmp_path / f"audit-{len(how)}", *how)
        assert audited["findings"]["unreadable-record"] == 0
        assert "unreadable" not in audited
        assert not (tmp_path / f"audit-{len(how)}" / "unreadable").exists()


def test_a_frame_has_a_row_for_each_on_request(spark: SparkSession, damaged: str) -> None:
    reader = spark.read.format("hedwig").options(url=damaged, table="ledgers", onCorrupt="skip")
    frame = reader.schema("topic binary NOT NULL, unreadable string, ranges " + _ranges(spark, damaged)).load()
    rows = {bytes(row["topic"]): row for row in frame.collect()}
    assert {topic for topic, row in rows.items() if row["unreadable"]} == {BROKEN}
    assert "persistence record of topic 'broken'" in rows[BROKEN]["unreadable"]
    assert rows[BROKEN]["ranges"] is None
    assert rows[Topic(b"fine")]["ranges"] == []
    with pytest.raises(PySparkException, match="the column 'version' is null where 'unreadable' says why"):
        reader.schema("topic binary, unreadable string, version binary NOT NULL").load().collect()


def _ranges(spark: SparkSession, url: str) -> str:
    table = spark.read.format("hedwig").options(url=url, table="ledgers").load()
    return table.schema["ranges"].dataType.simpleString()
