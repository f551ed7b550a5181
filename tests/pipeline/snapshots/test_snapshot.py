"""Prove that a snapshot vouches for its content: damage of every kind is found, and a half snapshot is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.clock import SystemClock
from hedwig.exit_codes import ExitCode
from hedwig.pipeline.command import Job
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.generate.generate import Recipe, generate
from hedwig.pipeline.snapshots import store_snapshot
from hedwig.pipeline.snapshots.diff import diff
from hedwig.pipeline.snapshots.manifest import FORMAT, Manifest
from hedwig.pipeline.snapshots.snapshot import SNAPSHOT_TABLES, read_snapshot, write_snapshot
from hedwig.pipeline.snapshots.store_snapshot import take_snapshot
from hedwig.pipeline.source.job_options import ScanOptions
from hedwig.pipeline.source.store_tables import TableToCopy, read_table_to_copy

RECIPE = Recipe(topics=300, subscriptions=500, with_history=True)


class _MinuteClock(SystemClock):
    """A clock that advances by a minute at each reading, the first one included."""

    minutes = 0

    def wall(self) -> float:
        self.minutes += 1
        return 60.0 * self.minutes


def _frames(spark: SparkSession) -> dict[Table, DataFrame]:
    return {table: generate(spark, RECIPE, table, partitions=2) for table in RECIPE.tables}


def _written(spark: SparkSession, folder: Path) -> Path:
    write_snapshot(spark, _frames(spark), str(folder), source="generated", prefix=b"\xff")
    return folder


def _rewrite(folder: Path, change: dict[str, object]) -> None:
    """Change the manifest as a person would edit it: the file system's own checksum goes, too."""
    file = folder / "manifest.json"
    (folder / ".manifest.json.crc").unlink(missing_ok=True)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))


def test_a_snapshot_holds_what_was_written_and_its_manifest_says_what(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    snapshot = read_snapshot(spark, str(folder))
    snapshot.verify()
    manifest = snapshot.manifest
    assert (manifest.source, manifest.prefix) == ("generated", "ff")
    assert manifest.began <= manifest.ended
    assert {table: each.rows for table, each in manifest.tables.items()} == {
        table: frame.count() for table, frame in _frames(spark).items()
    }
    for table, frame in _frames(spark).items():
        assert diff(table, frame, snapshot.frames[table]).count() == 0
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == [
        "ledgers",
        "manifest.json",
        "owners",
        "subscriptions",
    ]


def test_a_snapshot_of_a_store_began_before_what_is_read_was_planned(
    spark: SparkSession, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store lists its topics to plan, the snapshot lacks what is created after that."""
    clock = _MinuteClock()
    planned: list[int] = []

    def noted(*how: Any) -> TableToCopy:
        planned.append(clock.minutes)
        return read_table_to_copy(*how)

    monkeypatch.setattr(store_snapshot, "read_table_to_copy", noted)
    folder, job = str(tmp_path / "snapshot"), Job(name="snapshot")
    manifest = take_snapshot(job, spark, filled, SNAPSHOT_TABLES, folder, ScanOptions({}), "rows", clock)
    assert planned == [1] * len(SNAPSHOT_TABLES)
    assert manifest.began == "1970-01-01T00:01:00+00:00"
    assert manifest.ended > manifest.began


def test_nothing_is_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(JobError, match="has something in it, and nothing is overwritten") as caught:
        write_snapshot(spark, _frames(spark), str(tmp_path), source="generated")
    assert caught.value.code is ExitCode.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise ValueError("the store went away")

    frames = _frames(spark)
    broken = frames[Table.SUBSCRIPTIONS]
    frames[Table.SUBSCRIPTIONS] = broken.mapInArrow(fails, broken.schema)
    folder = tmp_path / "snapshot"
    with pytest.raises(Exception, match="the store went away"):
        write_snapshot(spark, frames, str(folder), source="generated")
    assert not folder.exists()


def test_a_folder_without_a_manifest_is_no_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    (folder / "manifest.json").unlink()
    for path, words in ((folder, "no whole snapshot"), (tmp_path / "nowhere", "does not exist")):
        with pytest.raises(JobError, match=words) as caught:
            read_snapshot(spark, str(path))
        assert caught.value.code is ExitCode.NOT_FOUND


def test_a_manifest_of_a_later_format_or_a_damaged_one_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    _rewrite(folder, {"format": FORMAT + 1})
    with pytest.raises(JobError, match=rf"is of format {FORMAT + 1}, and this release reads up to {FORMAT}"):
        read_snapshot(spark, str(folder))
    _rewrite(folder, {"format": FORMAT, "tables": {"ledgers": {"rows": 1, "checksum": "?"}}})
    with pytest.raises(JobError, match="nothing readable of the table 'ledgers'"):
        read_snapshot(spark, str(folder))
    _rewrite(folder, {"format": FORMAT, "prefix_hex": "no prefix"})
    with pytest.raises(JobError, match="no manifest of a snapshot, or damaged"):
        read_snapshot(spark, str(folder))
    for text in ("{", "[]", "{}", '{"kind": "hedwig metadata snapshot"}'):
        with pytest.raises(JobError, match=r"is damaged|no manifest of a snapshot"):
            Manifest.decode(text, "manifest.json")


def test_missing_rows_and_changed_rows_are_found(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    parts = sorted((folder / "subscriptions").glob("*.parquet"))
    assert len(parts) == 2
    kept = parts[0].read_bytes()
    parts[0].unlink()
    with pytest.raises(JobError, match="rows, and the manifest says 500: files are missing or were added"):
        read_snapshot(spark, str(folder)).verify()
    parts[0].write_bytes(kept)
    read_snapshot(spark, str(folder)).verify()
    rows = pq.read_table(parts[0])
    subscribers = rows["subscriber"].to_pylist()
    changed = pa.array([subscribers[0] + b"x", *subscribers[1:]], pa.binary())
    pq.write_table(rows.set_column(rows.schema.get_field_index("subscriber"), "subscriber", changed), parts[0])
    # Spark left a checksum beside the file, which would report the change before ours does.
    parts[0].with_name(f".{parts[0].name}.crc").unlink()
    with pytest.raises(JobError, match="it was changed after it was written"):
        read_snapshot(spark, str(folder)).verify()
    parts[0].write_bytes(kept)
    says = json.loads((folder / "manifest.json").read_text())["tables"]
    says["subscriptions"]["checksum"] = "0" * 48
    _rewrite(folder, {"tables": says})
    with pytest.raises(JobError, match="it was changed after it was written"):
        read_snapshot(spark, str(folder)).verify()


def test_what_records_have_besides_is_counted_and_told(spark: SparkSession, tmp_path: Path) -> None:
    frames = _frames(spark)
    first = F.col("topic") == F.lit(frames[Table.LEDGERS].first()["topic"])  # type: ignore[index]
    frames[Table.LEDGERS] = frames[Table.LEDGERS].withColumn("unknown_fields", first)
    folder = tmp_path / "snapshot"
    manifest = write_snapshot(spark, frames, str(folder), source="generated")
    assert manifest.unknown_fields == {Table.LEDGERS: 1}
    assert manifest.figures(1.0)["unknown_fields"] == {"ledgers": 1}
    assert manifest.warning is not None
    assert manifest.warning.startswith("1 records of ledgers have fields of a newer release of Hedwig")
    snapshot = read_snapshot(spark, str(folder))
    snapshot.verify()
    assert snapshot.manifest == manifest
    assert spark.read.parquet(f"{folder}/ledgers").columns == spark_schema(Table.LEDGERS).names


def test_files_that_cannot_be_read_are_damaged_only_if_they_show_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    snapshot = read_snapshot(spark, str(folder))
    part = next((folder / "ledgers").glob("*.parquet"))
    kept = part.read_bytes()
    part.unlink()
    with pytest.raises(JobError, match=rf"the file file:\S*{part.name} cannot be read: .*does not exist") as caught:
        snapshot.verify([Table.LEDGERS])
    assert "damaged" not in str(caught.value)
    part.write_bytes(bytes([*kept[:100], kept[100] ^ 1, *kept[101:]]))
    with pytest.raises(JobError, match=r"Checksum error.*it is damaged, use another copy"):
        snapshot.verify([Table.LEDGERS])


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    folder = _written(spark, tmp_path / "snapshot")
    part = next((folder / "ledgers").glob("*.parquet"))
    part.with_name(f".{part.name}.crc").unlink()
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(JobError, match="ledgers cannot be read: a file cannot be read as Parquet"):
        read_snapshot(spark, str(folder)).verify()
