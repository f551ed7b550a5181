"""Shares of a table as rows of a frame. Each share travels only to the task that reads it.

A share of ZooKeeper names all of its topics. Spark sends some things to every task, such as the values that a function
refers to. Shares among those would take the names of the whole store to every task.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition

__all__ = ["frame_of_shares", "shares_in"]


def frame_of_shares(spark: SparkSession, shares: Sequence[InputPartition]) -> DataFrame:
    """Return a frame with one partition, and so one task, for each of `shares`. There must be at least one.

    Spark does not count the rows of this frame as rows that a task has read.

    Columns: value (binary), one row per partition, for `shares_in`.
    """
    # Spark sends what a partition was made from only with the task of that partition. The driver pickles the shares
    # here, and `shares_in` unpickles them. PySpark's own way from an RDD to a frame would start one more process per
    # task, to unpickle the shares and make rows of them. PySpark reads CSV from an RDD in the way that is used here.
    pickled = spark.sparkContext.parallelize(shares, len(shares))
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    return DataFrame(session.createDataset(pickled._jrdd.rdd(), jvm.Encoders.BINARY()).toDF(), spark)


def shares_in(batches: Iterable[pa.RecordBatch]) -> Iterator[InputPartition]:
    """Iterate over the shares in batches of rows of such a frame."""
    for batch in batches:
        for row in batch.column(0).to_pylist():
            # PySpark pickles lists of items, here of one item each.
            yield from pickle.loads(row)
