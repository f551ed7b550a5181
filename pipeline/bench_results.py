"""Result files of hedwig-bench as frames: a row for each measurement.

Read are the parts of the format that say what was measured and how fast; a file of another format is refused. A
percentile is of one measurement's histogram, and never an average.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.errors import ConfigurationError
from hedwig.histograms import Histogram
from pipeline.errors import JobError

__all__ = ["measurements", "medians"]

_FORMAT: Final = 1
_HISTOGRAM: Final = "response"
"""Times from when each operation should have begun; where only the times of service were kept, those."""
_COLUMNS: Final = pa.schema(
    [
        ("file", pa.string()),
        ("program", pa.string()),
        ("started", pa.string()),
        ("commit", pa.string()),
        ("label", pa.string()),
        ("workload", pa.string()),
        ("topics", pa.int64()),
        ("in_flight", pa.int64()),
        ("driver", pa.string()),
        ("place", pa.string()),
        ("round", pa.int32()),
        ("operations", pa.int64()),
        ("seconds", pa.float64()),
        ("rate_per_s", pa.float64()),
        ("errors", pa.int64()),
        ("p50_ms", pa.float64()),
        ("p99_ms", pa.float64()),
        ("wall", pa.string()),
    ]
)
_SQL: Final = ", ".join(
    f"`{field.name}` " + {"string": "string", "int64": "bigint", "int32": "int", "double": "double"}[str(field.type)]
    for field in _COLUMNS
)
_WHAT: Final = ("program", "workload", "topics", "in_flight", "driver", "place")
"""What has to be the same for two measurements to be of the same thing."""


def measurements(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the measurements in the files at `paths`, a row each.

    Columns: file, program, started, commit, label: of the run; workload, topics, in_flight, driver, place, round: what
    was measured; operations, seconds, rate_per_s, errors, p50_ms, p99_ms; wall: why it could not be measured, or null.
    Fails with JobError, once it is read, for a file that is no result.
    """
    files = spark.read.text(list(paths), wholetext=True).select(
        F.input_file_name().alias("file"), F.col("value").alias("text")
    )
    return files.mapInArrow(_parse, _SQL)


def medians(measured: DataFrame) -> DataFrame:
    """Return one row for each thing measured in each run: the medians over its rounds.

    Columns: started, file, label; what has to be the same (program, workload, topics, in_flight, driver, place); rounds
    (bigint), rate_per_s, p50_ms, p99_ms, errors (the sum). Rounds that hit a wall do not count.
    """
    figures = [F.median(name).alias(name) for name in ("rate_per_s", "p50_ms", "p99_ms")]
    grouped = measured.where(F.col("wall").isNull()).groupBy("started", "file", "label", *_WHAT)
    return grouped.agg(F.count(F.lit(1)).alias("rounds"), *figures, F.sum("errors").alias("errors")).orderBy(
        "started", *_WHAT
    )


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        pairs = zip(batch.column("file").to_pylist(), batch.column("text").to_pylist(), strict=True)
        rows = [row for file, text in pairs for row in _rows(file, text)]
        yield pa.RecordBatch.from_pylist(rows, schema=_COLUMNS)


def _rows(file: str, text: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(text)
    except ValueError as exc:
        raise JobError(f"{file} is no result of hedwig-bench: it is no JSON") from exc
    match content:
        case {"format": 1, "program": str(program), "started": str(started), "measurements": list(found)}:
            run = {
                "file": file.rpartition("/")[2],
                "program": program.removeprefix("hedwig-bench "),
                "started": started,
                "commit": content.get("environment", {}).get("commit"),
                "label": content.get("terms", {}).get("label"),
            }
            return [run | _measured(each) for each in found]
        case {"format": int(version)} if version > _FORMAT:
            raise JobError(f"{file} is of format {version}, and this release reads {_FORMAT}: use a later release")
        case _:
            raise JobError(f"{file} is no result of hedwig-bench: name files that it has written")


def _measured(each: dict[str, Any]) -> dict[str, Any]:
    workload, histograms = each["workload"], each.get("histograms") or {}
    p50, p99 = _percentiles(histograms.get(_HISTOGRAM) or histograms.get("service"))
    seconds = each["seconds"]
    return {
        "workload": workload["name"],
        "topics": workload["topics"],
        "in_flight": workload["in_flight"],
        "driver": each["driver"],
        "place": each.get("on", "embedded"),
        "round": each["round"],
        "operations": each["count"],
        "seconds": seconds,
        "rate_per_s": each["count"] / seconds if seconds else None,
        "errors": sum((each.get("errors") or {}).values()),
        "p50_ms": p50,
        "p99_ms": p99,
        "wall": each.get("wall"),
    }


def _percentiles(text: str | None) -> tuple[float | None, float | None]:
    if text is None:
        return None, None
    try:
        histogram = Histogram.decode(text)
    except (ValueError, ConfigurationError):
        return None, None  # The library that reads them belongs to another extra; rates are there without it.
    return histogram.percentile_us(50) / 1000, histogram.percentile_us(99) / 1000
