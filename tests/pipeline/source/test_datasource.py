"""The data source in a real session: what it reads and writes, what it refuses, and tasks that run again."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from msgpack import packb
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.taskcontext import TaskContext

from hedwig.metadata import MetadataStore, RecordKey, Write
from hedwig.metadata.records.stamps import Stamp
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.bulk_contents import fill
from hedwig.model import LedgerRanges, Topic, UnknownFields
from hedwig.pipeline.frames.policies import Policy, WriteResult
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.apply import ApplyConfig
from hedwig.pipeline.source.datasource import (
    HedwigWriter,
    KnownSession,
    RowsNotWrittenError,
    TaskReport,
    register,
    source_of,
)
from hedwig.pipeline.source.source_options import OnConflict
from hedwig.pipeline.source.speculation import is_speculating
from hedwig.pipeline.source.statistics import Statistics
from hedwig.pipeline.source.writing import apply_rows
from hedwig.versions import ANY, NEW
from tests.pipeline.support.stores import new_store, records, rows_of_table, with_store

TOPICS: Final = [Topic(b"topic/%03d" % number) for number in range(60)]


@pytest.fixture
def filled(tmp_path: Path) -> str:
    """The URL of a store with records of each kind."""
    url = new_store(tmp_path, "filled")
    with_store(url, fill)
    return url


@pytest.fixture
def empty(tmp_path: Path) -> str:
    """The URL of an empty store."""
    return new_store(tmp_path, "empty")


@pytest.fixture
def owned(tmp_path: Path) -> str:
    """The URL of a store in which each of TOPICS has an owner."""
    url = new_store(tmp_path, "owned")
    writes = [Write(RecordKey(topic), samples.hub(number), NEW) for number, topic in enumerate(TOPICS)]

    async def work(store: MetadataStore) -> None:
        for outcome in await store.ownership.apply(writes):
            outcome.check()

    with_store(url, work)
    return url


def loaded(spark: SparkSession, url: str, table: Table, **options: Any) -> DataFrame:
    return spark.read.format("hedwig").options(url=url, table=table.value, **options).load()


def save(frame: DataFrame, url: str, table: Table, mode: str = "append", **options: Any) -> None:
    frame.write.format("hedwig").options(url=url, table=table.value, **options).mode(mode).save()


def changed(frame: DataFrame) -> DataFrame:
    """Return the owners with other epochs."""
    return frame.withColumn("epoch", (F.col("epoch") + 1000).cast("decimal(20,0)"))


def values(url: str, table: Table) -> dict[RecordKey, Any]:
    return {key: stored.value for key, stored in records(url, table).items()}


# -------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("table", Table)
def test_tables_are_read_and_written_whole(spark: SparkSession, filled: str, empty: str, table: Table) -> None:
    frame = loaded(spark, filled, table, rowsPerPartition=20, fetchRows=7, batchRows=10)
    assert frame.schema == spark_schema(table)
    assert frame.rdd.getNumPartitions() > 1
    rows = rows_of_table(filled, table)
    assert sorted(frame.toArrow().to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)
    save(frame, empty, table)
    if table is Table.TOPICS:
        assert values(empty, table) == dict.fromkeys(records(filled, table), LedgerRanges())
    else:
        assert values(empty, table) == values(filled, table)


def test_some_topics_and_columns_are_read(spark: SparkSession, filled: str) -> None:
    frame = loaded(spark, filled, Table.SUBSCRIPTIONS, prefix="t-0", start="t-005", stop="t-02")
    expected = sorted(key.topic for key in records(filled, Table.SUBSCRIPTIONS) if b"t-005" <= key.topic < b"t-02")
    assert sorted(bytes(row.topic) for row in frame.select("topic").collect()) == expected
    assert expected
    reader = spark.read.format("hedwig").options(url=filled, table="subscriptions", prefix="t-0")
    some = reader.schema("subscriber binary NOT NULL, topic binary NOT NULL").load()
    assert some.columns == ["subscriber", "topic"]
    topics = {bytes(row.topic) for row in some.collect()}
    assert topics == {key.topic for key in records(filled, Table.SUBSCRIPTIONS) if key.topic.startswith(b"t-0")}


def test_columns_are_read_as_nullable_as_they_are_asked_for(spark: SparkSession, filled: str, owned: str) -> None:
    reader = spark.read.format("hedwig").options(url=filled, table="subscriptions")
    for asked in ("topic binary", "topic binary NOT NULL", "state struct<consumed struct<local decimal(20,0), "
                  "remote array<struct<region binary, seq_id decimal(20,0)>>>>, subscriber binary"):  # fmt: skip
        frame = reader.schema(asked).load()
        assert len(frame.collect()) == len(records(filled, Table.SUBSCRIPTIONS))
    nullable = spark_schema(Table.OWNERS)
    for field in nullable:
        field.nullable = True
    loose = spark.read.format("hedwig").schema(nullable).options(url=owned, table="owners").load()
    assert loose.schema == nullable
    assert sorted(loose.collect()) == sorted(loaded(spark, owned, Table.OWNERS).collect())
    owners = spark.read.format("hedwig").options(url=owned, table="owners")
    with pytest.raises(PySparkException, match=r"the column 'ssl_port' .* may be null: leave out NOT NULL"):
        owners.schema("topic binary, ssl_port int NOT NULL").load().collect()
    with pytest.raises(PySparkException, match=r"the column 'state' .*, or something in it, may be null"):
        reader.schema(
            "state struct<consumed struct<local decimal(20,0), "
            "remote array<struct<region binary NOT NULL, seq_id decimal(20,0)>>>>"
        ).load().collect()


def test_conditions_on_the_topic_are_left_to_the_store(spark: SparkSession, filled: str) -> None:
    frame = loaded(spark, filled, Table.SUBSCRIPTIONS, pushdown="true")
    stored = list(records(filled, Table.SUBSCRIPTIONS))
    crowded = max({key.topic for key in stored}, key=[key.topic for key in stored].count)
    for wanted, expected in (
        (F.col("topic") == F.lit(crowded), [key for key in stored if key.topic == crowded]),
        (
            (F.col("topic") > F.lit(b"t-01")) & (F.col("subscriber") == F.lit(b"1")),
            [key for key in stored if key.topic > b"t-01" and key.subscriber == b"1"],
        ),
    ):
        rows = frame.where(wanted).select("topic", "subscriber").collect()
        assert sorted((bytes(row.topic), bytes(row.subscriber)) for row in rows) == sorted(
            (key.topic, key.subscriber) for key in expected
        )
        assert expected
    plan = frame.where(F.col("topic") == F.lit(crowded))._jdf.queryExecution().executedPlan().toString()
    assert "Filter (topic" not in plan


# -------------------------------------------------------------------------------------------------------------- writing


def test_rows_that_were_not_written_fail_the_job_or_are_reported(spark: SparkSession, owned: str) -> None:
    before = records(owned, Table.OWNERS)
    frame = changed(loaded(spark, owned, Table.OWNERS))
    with pytest.raises(PySparkException, match=r"60 of 60 rows: 60 conflict.*topic 'topic/000' exists already"):
        save(frame, owned, Table.OWNERS)
    save(frame, owned, Table.OWNERS, onConflict="report")
    assert records(owned, Table.OWNERS) == before


def test_replace_takes_the_version_of_the_frame(spark: SparkSession, owned: str, tmp_path: Path) -> None:
    # Keep the frame outside of the store, as users of `replace` do: a frame that is read again has other versions.
    loaded(spark, owned, Table.OWNERS).write.parquet(str(tmp_path / "owners"))
    frame = changed(spark.read.parquet(str(tmp_path / "owners")))
    save(frame, owned, Table.OWNERS, policy="replace")
    after = records(owned, Table.OWNERS)
    assert {stored.value.epoch for stored in after.values()} == set(range(1000, 1060))
    # The same content again, as after a job that ended early, changes nothing. A third content counts as a change by
    # somebody else since the read.
    save(frame, owned, Table.OWNERS, policy="replace")
    with pytest.raises(PySparkException, match=r"60 of 60 rows: 60 superseded.*was changed since it was read"):
        save(changed(frame), owned, Table.OWNERS, policy="replace")
    assert records(owned, Table.OWNERS) == after


def test_report_of_a_frame_that_is_applied(spark: SparkSession, owned: str, empty: str) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    config = ApplyConfig(url=empty, table=Table.OWNERS)
    report = Statistics.of_rows(apply_rows(frame, config, partitions=3).collect())
    assert str(report) == "60 rows: 60 created"
    again = apply_rows(frame.unionByName(changed(frame)), config).collect()
    assert str(Statistics.of_rows(again)) == "120 rows: 60 same, 60 conflict"
    assert values(empty, Table.OWNERS) == values(owned, Table.OWNERS)


def test_overwrite_fills_an_empty_store(spark: SparkSession, owned: str, empty: str) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    save(frame, empty, Table.OWNERS, policy="overwrite", hubsStopped="true")
    assert values(empty, Table.OWNERS) == values(owned, Table.OWNERS)
    with pytest.raises(PySparkException, match="needs an empty target"):
        save(frame, empty, Table.OWNERS, policy="overwrite", hubsStopped="true")


def test_what_stops_a_job_is_told_once(owned: str, caplog: pytest.LogCaptureFixture) -> None:
    conflicts = Statistics(Counter({WriteResult.CREATED: 3, WriteResult.CONFLICT: 1}), ["it differs"])
    writer = HedwigWriter(ApplyConfig(url=owned, table=Table.OWNERS), OnConflict.FAIL)
    # Spark lets a writer abort also after all tasks finished, if the writer's own commit failed.
    with pytest.raises(RowsNotWrittenError, match="1 of 4 rows"):
        writer.commit([TaskReport(conflicts)])
    writer.abort([TaskReport(conflicts)])
    assert caplog.text == ""
    writer.abort([TaskReport(conflicts), None])
    assert "the job did not finish; of the tasks that did: 4 rows" in caplog.text


# ------------------------------------------------------------------------------------------------- tasks that run again


def _fails_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, ten at a time. The first attempt fails in the middle."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        for start in range(0, batch.num_rows, 10):
            if context.attemptNumber() == 0 and start >= 20:
                raise RuntimeError("the first attempt of a task ends here")
            yield batch.slice(start, 10)


def failing_at_first(frame: DataFrame) -> DataFrame:
    return frame.coalesce(1).mapInArrow(_fails_at_first, frame.schema)


def test_task_that_fails_and_runs_again_creates_everything_once(spark: SparkSession, owned: str, empty: str) -> None:
    report = apply_rows(loaded(spark, owned, Table.OWNERS), ApplyConfig(url=empty, table=Table.OWNERS))
    del report  # A frame that nobody collects writes nothing.
    assert records(empty, Table.OWNERS) == {}
    save(failing_at_first(loaded(spark, owned, Table.OWNERS)), empty, Table.OWNERS)
    assert values(empty, Table.OWNERS) == values(owned, Table.OWNERS)


def test_task_that_fails_and_runs_again_replaces_everything_once(
    spark: SparkSession, owned: str, tmp_path: Path
) -> None:
    loaded(spark, owned, Table.OWNERS).write.parquet(str(tmp_path / "owners"))
    frame = changed(spark.read.parquet(str(tmp_path / "owners")))
    before = records(owned, Table.OWNERS)
    save(failing_at_first(frame), owned, Table.OWNERS, policy=Policy.REPLACE.value)
    after = records(owned, Table.OWNERS)
    assert {stored.value.epoch for stored in after.values()} == set(range(1000, 1060))
    # A version grows by one with each write.
    assert [_writes(after[key].version.raw) - _writes(before[key].version.raw) for key in before] == [1] * 60


def _writes(version: bytes) -> int:
    return Stamp.decode(version[1:]).number


# -------------------------------------------------------------------------------------------------------------- refused


def test_frames_with_other_columns_are_refused(spark: SparkSession, owned: str) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    for wrong, message in (
        (frame.drop("host", "epoch"), r"the frame has no column 'host', 'epoch'"),
        (frame.drop("version"), r"the frame has no column 'version'"),
        (frame.withColumn("rack", F.lit(1)), r"the table owners has no column 'rack': drop it"),
        (frame.withColumn("epoch", F.lit(1)), r"the column 'epoch' of the table owners is decimal\(20,0\), not int"),
    ):
        with pytest.raises(PySparkException, match=message):
            save(wrong, owned, Table.OWNERS, policy="replace")


def test_what_cannot_work_is_refused_before_it_begins(spark: SparkSession, owned: str, tmp_path: Path) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    with pytest.raises(PySparkException, match="the mode append only"):
        save(frame, owned, Table.OWNERS, mode="overwrite")
    with pytest.raises(PySparkException, match="the option 'connections' is 'many'; it takes a whole number"):
        save(frame, owned, Table.OWNERS, connections="many")
    with pytest.raises(PySparkException, match="the option 'table' is missing"):
        spark.read.format("hedwig").option("url", owned).load()
    with pytest.raises(PySparkException, match="has no path"):
        spark.read.format("hedwig").options(url=owned, table="owners").load("/somewhere")
    with pytest.raises(PySparkException, match=r"there is no metadata store at .*no/such/place"):
        loaded(spark, f"sqlite://{tmp_path}/no/such/place/store.db", Table.OWNERS).collect()
    with pytest.raises(PySparkException, match="rows whose backend is 'elsewhere' cannot replace"):
        save(frame.withColumn("backend", F.lit("elsewhere")), owned, Table.OWNERS, policy="replace")


def test_overwrite_is_refused_where_tasks_run_twice_at_once(spark: SparkSession, owned: str, empty: str) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    spark.dataSource.register(source_of(KnownSession(speculating=True, master="local[2]", directory="/")))
    try:
        with pytest.raises(PySparkException, match=r"set spark\.speculation=false"):
            save(frame, empty, Table.OWNERS, policy="overwrite", hubsStopped="true")
        save(frame, empty, Table.OWNERS)
    finally:
        register(spark)


def test_a_session_that_was_told_later_does_not_stop_speculation(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler uses the settings of the context, which a session cannot change."""
    assert not is_speculating(spark)
    made_with = spark.sparkContext.getConf().set("spark.speculation", "true")
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: made_with)
    assert spark.conf.get("spark.speculation", "false") == "false"
    assert is_speculating(spark)


def test_a_file_is_refused_where_tasks_run_on_other_machines(spark: SparkSession, owned: str, empty: str) -> None:
    frame = loaded(spark, owned, Table.OWNERS)
    spark.dataSource.register(source_of(KnownSession(speculating=False, master="spark://host:7077", directory="/")))
    try:
        for work in (
            lambda: loaded(spark, owned, Table.OWNERS).collect(),
            lambda: save(frame, empty, Table.OWNERS),
        ):
            with pytest.raises(PySparkException, match=r"is a file of one machine, and the tasks of spark://host:7077"):
                work()
    finally:
        register(spark)
    assert records(empty, Table.OWNERS) == {}


def test_relative_paths_start_where_the_driver_is(
    spark: SparkSession, owned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark's workers started earlier, in another directory.
    frame = loaded(spark, owned, Table.OWNERS)
    monkeypatch.chdir(tmp_path)
    register(spark)
    try:
        save(frame, "sqlite:///./saved.db", Table.OWNERS)
        assert loaded(spark, "sqlite:///./saved.db?create=false", Table.OWNERS).count() == 60
        apply_rows(frame, ApplyConfig(url="sqlite:///./applied.db", table=Table.OWNERS)).collect()
    finally:
        monkeypatch.undo()
        register(spark)
    for name in ("saved", "applied"):
        assert values(f"sqlite://{tmp_path}/{name}.db", Table.OWNERS) == values(owned, Table.OWNERS)


def test_tables_tell_on_request_which_records_have_unknown_fields(spark: SparkSession, owned: str) -> None:
    topic = TOPICS[3]
    hub = replace(samples.hub(3), unknown=UnknownFields("msgpack", packb({"rack": "r7"})))

    async def work(store: MetadataStore) -> None:
        for outcome in await store.ownership.apply([Write(RecordKey(topic), hub, ANY)]):
            outcome.check()

    with_store(owned, work)
    reader = spark.read.format("hedwig").options(url=owned, table="owners")
    frame = reader.schema("topic binary NOT NULL, unknown_fields boolean NOT NULL").load()
    assert [bytes(row["topic"]) for row in frame.where("unknown_fields").collect()] == [topic]


def test_data_source_is_found_by_itself_and_never_trusted_blindly(spark: SparkSession, owned: str) -> None:
    fresh = spark.newSession()
    assert loaded(fresh, owned, Table.OWNERS).count() == 60
    with pytest.raises(PySparkException, match=r"call hedwig\.pipeline\.source\.datasource\.register"):
        save(loaded(fresh, owned, Table.OWNERS), owned, Table.OWNERS, policy="overwrite", hubsStopped="true")
