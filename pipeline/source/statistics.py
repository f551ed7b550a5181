"""What became of the rows of a job, summed over its tasks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import pyarrow as pa

from hedwig.pipeline.frames.policies import WriteResult

__all__ = ["PROBLEMS", "PROBLEMS_MAX", "STATISTICS_SCHEMA", "Statistics"]

PROBLEMS_MAX: Final = 20
"""At most this many problems are kept in words; all are counted."""

STATISTICS_SCHEMA: Final = pa.schema(
    [
        *(pa.field(result.value, pa.int64(), nullable=False) for result in WriteResult),
        pa.field("problems", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
    ]
)
"""One row for each task: a number for each Result, and the first problems in words."""

PROBLEMS: Final = (WriteResult.SUPERSEDED, WriteResult.CONFLICT, WriteResult.FAILED)
"""The results of rows that the store does not hold afterwards."""


@dataclass(slots=True)
class Statistics:
    """How many rows had each result, and what was wrong with the first of those that were not written."""

    counts: Counter[WriteResult] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, result: WriteResult, problem: str | None = None) -> None:
        """Count one row."""
        self.counts[result] += 1
        if problem is not None and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def include(self, other: "Statistics") -> None:
        """Add the counts and problems of other rows."""
        self.counts.update(other.counts)
        self.problems += other.problems[: PROBLEMS_MAX - len(self.problems)]

    @property
    def rows(self) -> int:
        """Return how many rows there were."""
        return self.counts.total()

    @property
    def unwritten(self) -> int:
        """Return how many rows the store does not hold afterwards."""
        return sum(self.counts[result] for result in PROBLEMS)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[result]:,} {result}" for result in WriteResult if self.counts[result])
        return f"{self.rows:,} rows: {counts}" if counts else "no rows"

    def batch(self) -> pa.RecordBatch:
        """Return the statistics as a batch of one row with STATISTICS_SCHEMA."""
        row = {result.value: self.counts[result] for result in WriteResult} | {"problems": self.problems}
        return pa.RecordBatch.from_pylist([row], STATISTICS_SCHEMA)

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any] | Any]) -> Self:
        """Return the sum of rows with the columns of STATISTICS_SCHEMA: dictionaries, or what Spark collects."""
        total = cls()
        for row in rows:
            problems: Sequence[str] = row["problems"]
            total.include(cls(Counter({result: row[result.value] for result in WriteResult}), list(problems)))
        return total
