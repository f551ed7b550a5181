"""Shares of a table as rows of a frame, each on its way to the task that reads it, and to no other.

A share of ZooKeeper names all topics that are in it. What every task is sent, such as the values that a function brings
along, would take the names of the whole store to each of them.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

__all__ = ["frame_of_shares", "shares_in"]


def frame_of_shares(spark: SparkSession, shares: Sequence[InputPartition]) -> DataFrame:
    """Return a frame that has a partition, and so a task, for each of `shares`, of which there is one at least.

    Spark does not count its rows as something that a task has read.

    Columns: value (binary), one row a partition, for `shares_in`.
    """
    # Spark sends what a partition was made from with its own task only. The shares are pickled here, and unpickled by
    # whoever reads them: PySpark's own way from an RDD to a frame would have each task unpickle them in a process more,
    # to make rows of them. CSV it reads from an RDD as it is done here.
    pickled = spark.sparkContext.parallelize(shares, len(shares))
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    return DataFrame(session.createDataset(pickled._jrdd.rdd(), jvm.Encoders.BINARY()).toDF(), spark)


def shares_in(batches: Iterable[pa.RecordBatch]) -> Iterator[InputPartition]:
    """Iterate over the shares in batches of rows of such a frame."""
    for batch in batches:
        for row in batch.column(0).to_pylist():
            # PySpark pickles lists of what it is given, here of one each.
            yield from pickle.loads(row)
