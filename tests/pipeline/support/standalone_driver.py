"""A driver on a standalone cluster: writes subscriptions through the data source, as slowly as asked.

    python standalone_driver.py '{"master": "spark://…", "url": "zookeeper://…", "policy": "create", "rows": 12000, …}'

`slow`: tasks whose first attempt pauses for `pause_s` before each batch, null for all. `marks`: the folder in which
each attempt leaves a line for each batch that it hands on. A task writes a function of its rows alone, so another
attempt writes the same: a consume pointer 20,000 beyond the one read, or the row's number.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.taskcontext import TaskContext

from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.datasource import register

_TASKS: Final = 2
_BATCH: Final = 400
"""Rows. Python and Spark exchange them through buffers, where a few small rows would stay until the last one."""


def _new_rows(spark: SparkSession, rows: int) -> DataFrame:
    schema = spark_schema(Table.SUBSCRIPTIONS)
    number = F.col("id")
    columns = {
        "topic": F.format_string("topic-%05d", number).cast("binary"),
        "subscriber": F.lit("me").cast("binary"),
        "preferences": F.lit(None).cast(schema["preferences"].dataType),
        "state": _consumed(number),
        "version": F.lit("").cast("binary"),
        "backend": F.lit(""),
    }
    made = spark.range(rows, numPartitions=_TASKS)
    return made.select(*(columns[field.name].alias(field.name) for field in schema))


def _moved_rows(spark: SparkSession, url: str, folder: Path) -> DataFrame:
    """Return the rows of the store with consume pointers moved. Each task gets one file with half of them."""
    table = spark.read.format("hedwig").options(url=url, table="subscriptions").load()
    rows = sorted(table.collect(), key=lambda row: bytes(row["topic"]))
    share = len(rows) // _TASKS
    for start in range(0, len(rows), share):
        held = spark.createDataFrame(rows[start : start + share], table.schema)
        held.coalesce(1).write.mode("append").parquet(str(folder))
    return spark.read.parquet(str(folder)).withColumn("state", _consumed(F.col("state.consumed.local") + 20_000))


def _consumed(local: Any) -> Any:
    kind = spark_schema(Table.SUBSCRIPTIONS)["state"].dataType
    remote = F.array().cast("array<struct<region:binary,seq_id:decimal(20,0)>>")
    seq_id = F.struct(local.cast("decimal(20,0)").alias("local"), remote.alias("remote"))
    return F.struct(seq_id.alias("consumed")).cast(kind)


def _slowly(
    marks: str, slow: list[int] | None, pause_s: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.attemptNumber()
        is_slow = attempt == 0 and (slow is None or task in slow)
        with Path(marks, f"{task}-{attempt}").open("a", buffering=1) as mark:
            for batch in batches:
                mark.write(f"{time.monotonic()}\n")
                if is_slow:
                    time.sleep(pause_s)
                yield batch

    return hand_on


def main() -> None:
    """Write the rows, and report that it is done."""
    job = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(job["master"]).appName("tests of the pipeline")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"-XX:+UseSerialGC {os.environ['SPARK_SUBMIT_OPTS']}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH),
        **job["settings"],
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    is_new = job["policy"] == "create"
    frame = _new_rows(spark, job["rows"]) if is_new else _moved_rows(spark, job["url"], Path(job["marks"], "held"))
    slow = frame.mapInArrow(_slowly(job["marks"], job["slow"], job["pause_s"]), frame.schema)
    options = {"policy": job["policy"], "batchRows": str(_BATCH), "connections": "1", "onConflict": "report"}
    writer = slow.write.format("hedwig").options(url=job["url"], table="subscriptions", **options)
    writer.mode("append").save()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
