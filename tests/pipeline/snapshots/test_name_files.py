"""Prove that jobs read files of names as hedwig-admin does, to the byte."""

from pathlib import Path

from pyspark.sql import SparkSession

from hedwig.operations.loads.bulk_input import BulkInput
from hedwig.pipeline.snapshots.name_files import subscriptions_of, topics_of


def test_lines_end_where_those_of_hedwig_admin_do(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "subscriptions.tsv"
    file.write_bytes(b"a\rb\tx\ry\nc\td\r\n\re\tf\r\r\ng\th\xff")
    opened = BulkInput(str(file), with_subscriber=True)
    try:
        batch = opened.read_batch(10)
    finally:
        opened.close()
    assert batch is not None
    pairs = {(row.key.topic, row.key.subscriber) for row in batch.rows if row.key is not None}
    assert pairs == {(b"a\rb", b"x\ry"), (b"c", b"d"), (b"\re", b"f\r"), (b"g", b"h\xff")}
    rows = subscriptions_of(spark, str(file)).collect()
    assert {(bytes(row["topic"]), bytes(row["subscriber"])) for row in rows} == pairs
    topics = topics_of(spark, str(file)).collect()
    assert {bytes(row["topic"]) for row in topics} == {topic for topic, _ in pairs}
