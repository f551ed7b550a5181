"""The data source `hedwig`: the tables of a store as Spark DataFrames.

    spark.read.format("hedwig").option("url", url).option("table", "subscriptions").load()
    frame.write.format("hedwig").option("url", url).option("table", "subscriptions").mode("append").save()

Spark makes these objects in separate processes, beside the driver and in tasks. So they keep nothing from one call to
the next, except what Spark sends along: options, the ranges of a plan, and what tasks report.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hedwig.errors import ConfigurationError, HedwigError
from hedwig.metadata import KeyRange
from hedwig.pipeline.frames.policies import Policy
from hedwig.pipeline.frames.spark_types import asked_schema, check_frame, spark_schema
from hedwig.pipeline.source.apply import ApplyConfig, apply, prepare
from hedwig.pipeline.source.plan import ScanConfig, plan
from hedwig.pipeline.source.pushdown import narrowed
from hedwig.pipeline.source.scan import scan
from hedwig.pipeline.source.shared_stores import master_of, url_for_tasks
from hedwig.pipeline.source.source_options import OnConflict, SourceOptions
from hedwig.pipeline.source.speculation import check_policy, is_speculating
from hedwig.pipeline.source.statistics import Statistics

__all__ = [
    "HedwigDataSource",
    "HedwigWriter",
    "KnownSession",
    "RowsNotWrittenError",
    "Share",
    "TaskReport",
    "register",
    "source_of",
]

_log = logging.getLogger(__name__)


class RowsNotWrittenError(HedwigError):
    """Some rows were not written, and `onConflict` is not `report`. All other rows are in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSession:
    """Facts about a session that only its driver can learn.

    speculating: tasks may run twice at once. master: where it runs. directory: what relative paths start from.
    """

    speculating: bool
    master: str
    directory: str


class HedwigDataSource(DataSource):
    """Makes readers and writers; the options are those of `source_options`."""

    session: ClassVar[KnownSession | None] = None
    """What is known of the session; None if `register` was not called."""

    @classmethod
    def name(cls) -> str:
        return "hedwig"

    def schema(self) -> StructType:
        return spark_schema(SourceOptions(self.options).table)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions(self.options)
        config = options.scan_config()
        asked = asked_schema(config.table, schema)
        config = replace(config, url=self._for_tasks(config.url), columns=tuple(asked.names))
        return FilteringReader(config, asked) if options.pushdown else HedwigReader(config, asked)

    def writer(self, schema: StructType, overwrite: bool) -> "HedwigWriter":
        if overwrite:
            raise ConfigurationError(
                "a store of Hedwig is written to in the mode append only; the option policy says what to do about "
                "records that exist already"
            )
        options = SourceOptions(self.options)
        config = options.apply_config()
        config = replace(config, url=self._for_tasks(config.url))
        check_frame(config.table, schema, with_versions=config.policy is Policy.REPLACE)
        check_policy(config.policy, speculating=None if self.session is None else self.session.speculating)
        prepare(config)
        return HedwigWriter(config, options.on_conflict)

    def _for_tasks(self, url: str) -> str:
        if self.session is None:
            return url_for_tasks(url, master=None, directory=Path.cwd())
        return url_for_tasks(url, master=self.session.master, directory=self.session.directory)


def source_of(session: KnownSession) -> type[HedwigDataSource]:
    """Return a data source class for one session. Spark sends only the class to the processes that make its objects."""
    return type("KnownDataSource", (HedwigDataSource,), {"session": session})


def register(spark: SparkSession, warn: Callable[[str], object] = _log.warning) -> None:
    """Make the data source known to a session. Spark does that by itself where the package is installed.

    Two things need this call all the same. The policy overwrite is allowed only after it. On a cluster, a file of
    SQLite is refused before a task fails to find it. Relative paths start from the directory in which it was called.

    Args: spark - the session; warn - receives a text about settings that do harm.
    """
    speculating = is_speculating(spark)
    session = KnownSession(speculating=speculating, master=master_of(spark), directory=str(Path.cwd()))
    if speculating:
        warn(
            "spark.speculation is on: Spark may run a task that writes twice at once, which costs the store twice. "
            "Nothing is applied twice, but a write may go on after its job has ended. The policy overwrite is refused"
        )
    spark.dataSource.register(source_of(session))


class Share(InputPartition):
    """What one task reads."""

    def __init__(self, keys: KeyRange) -> None:
        super().__init__(keys)
        self.keys = keys


class HedwigReader(DataSourceReader):
    """Reads a table, one range of keys in each task, as batches with the requested schema."""

    def __init__(self, config: ScanConfig, asked: pa.Schema) -> None:
        self._config = config
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        return [Share(keys) for keys in plan(self._config)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share), "partitions are those that were planned"
        with closing(scan(self._config, partition.keys)) as batches:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self._asked)


class FilteringReader(HedwigReader):
    """A reader that leaves conditions on the topic to the store.

    Spark refuses a reader with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is true. So this is a
    class of its own.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        names, rest = narrowed(self._config.names, filters)
        self._config = replace(self._config, names=names)
        return rest


class TaskReport(WriterCommitMessage):
    """What became of the rows of one task."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics


class HedwigWriter(DataSourceArrowWriter):
    """Writes rows to a table, each by its own compare-and-set, without a transaction over all of them."""

    def __init__(self, config: ApplyConfig, on_conflict: OnConflict) -> None:
        self._config = config
        self._on_conflict = on_conflict

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskReport(apply(iterator, self._config))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        total = _total(messages)
        if not total.unwritten:
            _log.info("wrote %s to %s of %s", total, self._config.table, self._config.url)
            return
        report = (
            f"the table {self._config.table} of {self._config.url} did not take {total.unwritten:,} of {total}; the "
            f"first of them: {'; '.join(total.problems)}"
        )
        if self._on_conflict is OnConflict.FAIL:
            raise RowsNotWrittenError(f"{report} (with onConflict=report the driver only logs this)")
        _log.warning("%s", report)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if None not in messages:
            return  # All tasks have ended, so `commit` failed the job, and has reported why.
        total = _total(messages)
        if total.rows:
            _log.warning(
                "the job did not finish; of the tasks that did: %s. Run it again with the same rows to write the rest",
                total,
            )


def _total(messages: Iterable[WriterCommitMessage | None]) -> Statistics:
    total = Statistics()
    for message in messages:
        if isinstance(message, TaskReport):
            total.include(message.statistics)
    return total
