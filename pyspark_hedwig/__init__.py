"""The package that registers the data source: Spark registers the `DefaultSource` of each package `pyspark_*`."""

from hedwig.pipeline.source.datasource import HedwigDataSource as DefaultSource

__all__ = ["DefaultSource"]
