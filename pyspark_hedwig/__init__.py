"""What Spark looks for: a package `pyspark_*` with a `DefaultSource` is registered in every session by itself."""

from hedwig.pipeline.source.datasource import HedwigDataSource as DefaultSource

__all__ = ["DefaultSource"]
