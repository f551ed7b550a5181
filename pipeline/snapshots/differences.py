"""All differences of two sides. They are kept when they are counted, so no side is read again to show some of them."""

from collections import Counter
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.names import show_name
from hedwig.pipeline.frames.folder import Folder
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.diff import diff

__all__ = ["Differences"]


class Differences:
    """Compares tables. All differences go to `directory` as Parquet, if there is one. The result has at most `show`.

    Entering it claims the directory, which has to be empty. If the block raises, the directory is deleted.
    """

    def __init__(self, spark: SparkSession, directory: str | None, show: int) -> None:
        self._spark = spark
        self._directory = directory
        self._show = show
        self._counts: dict[Table, Counter[str]] = {}
        self._shown: list[dict[str, Any]] = []
        self._claim = ExitStack()

    def __enter__(self) -> Self:
        """Raises: JobError - as `Folder.deleted_on_failure`."""
        if self._directory is not None:
            self._claim.enter_context(Folder(self._spark, self._directory).deleted_on_failure())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._claim.__exit__(kind, error, trace)

    @property
    def count(self) -> int:
        """Return how many records differ."""
        return sum(sum(counts.values()) for counts in self._counts.values())

    def compare(self, table: Table, before: DataFrame, after: DataFrame) -> None:
        """Compare one table."""
        differing = diff(table, before, after)
        if self._directory is not None:
            path = f"{self._directory}/{table}"
            differing.write.parquet(path)
            differing = self._spark.read.parquet(path)
        else:
            differing = differing.persist()
        counted = differing.groupBy("change").agg(F.count(F.lit(1)).alias("rows")).collect()
        self._counts[table] = Counter({row["change"]: row["rows"] for row in counted})
        room = self._show - len(self._shown)
        if room > 0 and self._counts[table]:
            self._shown += [
                _shown(table, row.asDict()) for row in differing.drop("before", "after").limit(room).collect()
            ]
        differing.unpersist()

    def result(self) -> dict[str, Any]:
        """Return the counts by table and change, and some of the differences."""
        changes = ("added", "removed", "changed")
        counts = {table.value: {name: counts[name] for name in changes} for table, counts in self._counts.items()}
        into = {} if self._directory is None else {"into": self._directory}
        return {"differences": self.count, "tables": counts, **into, "some": self._shown}


def _shown(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    names = {name: show_name(bytes(row[name])) for name in ("topic", "subscriber") if name in row}
    return {"change": row["change"], "table": table.value} | names | {"what": ", ".join(row["what"])}
