"""Result files of hedwig-bench as frames: a row for each measurement.

Read are the parts of the format that say what was measured and how fast; a file of another format is refused.
Percentiles come from histograms: of one measurement's, and over rounds of their sum. They are never averaged.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.histograms import Histogram
from hedwig.pipeline.errors import JobError

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
        ("details", pa.string()),
        ("driver", pa.string()),
        ("place", pa.string()),
        ("round", pa.int32()),
        ("operations", pa.int64()),
        ("seconds", pa.float64()),
        ("rate_per_s", pa.float64()),
        ("errors", pa.int64()),
        ("p50_ms", pa.float64()),
        ("p99_ms", pa.float64()),
        ("peak_bytes", pa.int64()),
        ("wall", pa.string()),
        ("histogram", pa.string()),
    ]
)
_SQL: Final = ", ".join(
    f"`{field.name}` " + {"string": "string", "int64": "bigint", "int32": "int", "double": "double"}[str(field.type)]
    for field in _COLUMNS
)
_WHAT: Final = ("program", "workload", "topics", "in_flight", "details", "driver", "place")
"""What has to be the same for two measurements to be of the same thing."""
_DETAILS: Final[Mapping[str, Any]] = {
    "message_bytes": 100,
    "subscribers": 0,
    "rate_per_s": 0.0,
    "connections": 1,
    "choice": "turns",
    "among": "all",
    "keys": 0,
    "wide": 0,
    "sample": 0,
    "first": 0,
}
"""What else makes one load another, each with what it is where a file does not say: older ones have fewer of them."""
_PERCENTILES: Final = "p50_ms double, p99_ms double"


def measurements(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the measurements in the files at `paths`, a row each.

    Columns: file, program, started, commit, label: of the run; workload, topics, in_flight, details (what else makes
    the load, as in `message_bytes=1024`), driver, place, round: what was measured; operations, seconds, rate_per_s,
    errors, p50_ms, p99_ms; peak_bytes: the most memory that the measured programs had, where that was looked at; wall:
    why it could not be measured, or null; histogram: the response times, as the file has them.
    Fails with JobError, once it is read, for a file that is no result.
    """
    files = spark.read.text(list(paths), wholetext=True).select(
        F.input_file_name().alias("file"), F.col("value").alias("text")
    )
    return files.mapInArrow(_parse, _SQL)


def medians(measured: DataFrame) -> DataFrame:
    """Return one row for each thing measured in each run: its rounds taken together.

    Columns: started, file, label; what has to be the same (program, workload, topics, in_flight, details, driver,
    place); rounds (bigint); rate_per_s: the median; p50_ms, p99_ms: of all response times of all rounds; peak_bytes:
    the largest; errors: the sum. Rounds that hit a wall do not count.
    """
    grouped = measured.where(F.col("wall").isNull()).groupBy("started", "file", "label", *_WHAT)
    together = grouped.agg(
        F.count(F.lit(1)).alias("rounds"),
        F.median("rate_per_s").alias("rate_per_s"),
        # A function with type hints would be taken for one over columns.
        F.udf(lambda texts: _percentiles_of(texts), _PERCENTILES)(F.collect_list("histogram")).alias("times"),
        F.max("peak_bytes").alias("peak_bytes"),
        F.sum("errors").alias("errors"),
    )
    figures = ("rounds", "rate_per_s", "times.p50_ms", "times.p99_ms", "peak_bytes", "errors")
    return together.select("started", "file", "label", *_WHAT, *figures).orderBy("started", *_WHAT)


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
            return [run | _measured(file, each) for each in found]
        case {"format": int(version)} if version > _FORMAT:
            raise JobError(f"{file} is of format {version}, and this release reads {_FORMAT}: use a later release")
        case _:
            raise JobError(f"{file} is no result of hedwig-bench: name files that it has written")


def _measured(file: str, each: dict[str, Any]) -> dict[str, Any]:
    workload, histograms, values = each["workload"], each.get("histograms") or {}, each.get("values") or {}
    histogram = histograms.get(_HISTOGRAM) or histograms.get("service")
    try:
        p50, p99 = _percentiles_of([histogram] if histogram else [])
    except ValueError as exc:
        raise JobError(f"{file} has a histogram that cannot be read: {exc}") from exc
    seconds, peak = each["seconds"], values.get("bytes_max") or values.get("rss_bytes_max")
    return {
        "workload": workload["name"],
        "topics": workload["topics"],
        "in_flight": workload["in_flight"],
        "details": _details(workload),
        "driver": each["driver"],
        "place": each.get("on", "embedded"),
        "round": each["round"],
        "operations": each["count"],
        "seconds": seconds,
        "rate_per_s": each["count"] / seconds if seconds else None,
        "errors": sum((each.get("errors") or {}).values()),
        "p50_ms": p50,
        "p99_ms": p99,
        "peak_bytes": None if peak is None else int(peak),
        "wall": each.get("wall"),
        "histogram": histogram,
    }


def _details(workload: Mapping[str, Any]) -> str:
    """Say in words what else makes a load, beside its name, the topics and the calls in flight."""
    found = {name: workload.get(name, usual) for name, usual in _DETAILS.items()}
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in found.items()
        if value != _DETAILS[name]
    )


def _percentiles_of(texts: Sequence[str]) -> tuple[float | None, float | None]:
    """Return p50 and p99 of all times in histograms, in ms; None if there are none. Raises ValueError."""
    total = Histogram.merged([Histogram.decode(text) for text in texts])
    if not total.count:
        return None, None
    return total.percentile_us(50) / 1000, total.percentile_us(99) / 1000
