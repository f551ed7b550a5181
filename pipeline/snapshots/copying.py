"""Writing tables into a store, and comparing the store with them afterwards.

Each table takes one action, and one collect of the counts of its tasks. A second action on the same frame would write
again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.errors import ConfigurationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata.logs.record import LogRecord
from hedwig.names import show_name
from hedwig.pipeline.command import Job
from hedwig.pipeline.errors import JobError
from hedwig.pipeline.frames.checksum import checksum_of
from hedwig.pipeline.frames.policies import Policy, WriteResult
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.snapshots.diff import diff
from hedwig.pipeline.snapshots.logs import bringing_logs, logs_named_in
from hedwig.pipeline.snapshots.snapshot import Snapshot
from hedwig.pipeline.source.apply import prepare
from hedwig.pipeline.source.job_options import WriteOptions
from hedwig.pipeline.source.shared_stores import session_url
from hedwig.pipeline.source.statistics import Statistics
from hedwig.pipeline.source.store_tables import apply_config, read_table, write_table
from hedwig.pipeline.source.writing import check_writable

__all__ = ["Written", "restore", "write_tables"]

_SHOWN: Final = 3


@dataclass(slots=True)
class Written:
    """What became of the rows of each table; `verified`: the store was read afterwards, and holds all rows."""

    url: str
    statistics: dict[Table, Statistics] = field(default_factory=dict)
    seconds: float = 0.0
    verified: bool | None = None
    others: dict[Table, int] = field(default_factory=dict)
    """How many records the store holds beside those that were written."""
    logs: int | None = None
    """How many shared logs were written; None if the rows name none."""

    @property
    def is_whole(self) -> bool:
        """Say whether the store holds every row, according to its answers."""
        return not any(each.unwritten for each in self.statistics.values())

    def figures(self) -> dict[str, Any]:
        """Return what the job reports of it."""
        tables = {table.value: _counts(each) for table, each in self.statistics.items()}
        rows = sum(each.rows for each in self.statistics.values())
        rate = round(rows / self.seconds) if self.seconds else None
        verified = {} if self.verified is None else {"verified": self.verified}
        others = {table.value: rows for table, rows in self.others.items() if rows}
        logs = {} if self.logs is None else {"logs_written": self.logs}
        return {"tables": tables, "rows": rows, "rows_per_second": rate, **logs, **verified} | (
            {"others_in_store": others} if others else {}
        )

    def check(self) -> None:
        """Raise JobError if the store does not hold a row, because it holds another record or refused the row."""
        if self.is_whole:
            return
        total: Counter[WriteResult] = sum((each.counts for each in self.statistics.values()), Counter())
        problems = [problem for each in self.statistics.values() for problem in each.problems][:_SHOWN]
        said = f": {'; '.join(problems)}" if problems else ""
        if total[WriteResult.FAILED]:
            failed = total[WriteResult.FAILED]
            raise JobError(
                f"{failed:,} rows could not be written to {self.url}; {self.unwritten:,} in all are not what it "
                f"holds{said}"
            )
        raise JobError(
            f"{self.url} holds {self.unwritten:,} other records under the same names, and keeps them{said}; see them "
            "all with: hedwig-pipeline diff",
            ExitCode.VERSION_CONFLICT,
        )

    @property
    def unwritten(self) -> int:
        """Return how many rows are not what the store holds."""
        return sum(each.unwritten for each in self.statistics.values())


def write_tables(
    job: Job,
    spark: SparkSession,
    frames: Mapping[Table, DataFrame],
    url: str,
    write: WriteOptions,
    rows: Mapping[Table, int] | None = None,
    logs: Sequence[LogRecord] | None = None,
) -> Written:
    """Write `frames`, one after the other; `rows` is how many each has, if known.

    `logs` are those that come with the frames. Those that the frames name are written first, and no hub sweeps logs
    until all frames are written. None: the frames name none.

    All frames are checked before the first is written. So a frame that is refused leaves the store as it was.

    Topics are created under every policy, since a row says only that its topic exists. For OVERWRITE the store must
    have none.

    Raises: ConfigurationError - the frames are topics only, and the policy is not CREATE; as `check_writable`; what
        made a task fail for good: rows written until then stay, and `job.again` says how to go on. JobError - the tasks
        do not account for every row.
    """
    written = Written(url)
    began = job.seconds
    if set(frames) == {Table.TOPICS} and write.policy != Policy.CREATE:
        raise ConfigurationError(
            "topics without their ledgers say which topics exist, and that can be created only: leave out "
            f"--policy {write.policy}"
        )
    configs = {table: check_writable(frame, apply_config(url, table, write.options)) for table, frame in frames.items()}
    if write.policy == Policy.OVERWRITE:
        if Table.TOPICS in configs and Table.LEDGERS not in configs:
            # Creating topics does not check for an empty target. So check the table of the same records, `ledgers`.
            prepare(apply_config(session_url(spark, url), Table.LEDGERS, write.options))
        # The store was empty, so all records in it are from this job. It is not empty now, so it refuses OVERWRITE.
        job.again = f"run it again with --policy {Policy.CREATE}"
    with ExitStack() as stack:
        if logs is not None:
            named = logs_named_in(frames)
            wanted = [each for each in logs if each.number in named]
            bringing = bringing_logs(session_url(spark, url), wanted, write.timeout_s)
            written.logs = stack.enter_context(bringing)
        for table, frame in frames.items():
            expected = None if rows is None else rows[table]
            with job.progress(spark, str(table), expected, writes=True):
                written.statistics[table] = statistics = write_table(frame, configs[table], expected)
            job.tell(f"{table}: {statistics}")
            if expected is not None and statistics.rows != expected:
                raise JobError(f"of {expected:,} rows of {table}, {statistics.rows:,} are accounted for: {job.again}")
    written.seconds = job.seconds - began
    return written


def restore(
    job: Job,
    spark: SparkSession,
    snapshot: Snapshot,
    url: str,
    tables: Sequence[Table],
    write: WriteOptions,
    *,
    verify: bool = True,
) -> Written:
    """Write `tables` of a snapshot. With `verify`, read the store afterwards and compare.

    Raises: as `write_tables`; JobError - the store does not hold what was written.
    """
    frames = {table: snapshot.frames[table] for table in tables}
    rows = {table: snapshot.manifest.tables[table].rows for table in tables}
    written = write_tables(job, spark, frames, url, write, rows, snapshot.logs)
    if verify and written.is_whole:
        prefix = show_name(bytes.fromhex(snapshot.manifest.prefix))
        options = write.reading | ({"prefix": prefix} if prefix else {})
        for table in tables:
            with job.progress(spark, f"comparing {table}"):
                stored = read_table(spark, url, table, options)
                written.others[table] = _compare(job, table, frames[table], stored, written.url)
        written.verified = True
    return written


def _compare(job: Job, table: Table, frame: DataFrame, stored: DataFrame, url: str) -> int:
    """Return how many records a store holds beside those of `frame`. Raises JobError - some of `frame` are missing."""
    expected, held = (checksum_of(table, each, content_only=True) for each in (frame, stored))
    if held == expected:
        return 0
    counted = diff(table, frame, stored).groupBy("change").agg(F.count(F.lit(1)).alias("rows")).collect()
    changes = {row["change"]: int(row["rows"]) for row in counted}
    missing, changed = changes.get("removed", 0), changes.get("changed", 0)
    if missing or changed:
        raise JobError(
            f"{url} was written and does not hold the same: of {table} {missing:,} records are missing and {changed:,} "
            f"differ. Stop the program that writes there, then {job.again}"
        )
    return changes.get("added", 0)


def _counts(statistics: Statistics) -> dict[str, int]:
    return {result.value: statistics.counts[result] for result in WriteResult}
