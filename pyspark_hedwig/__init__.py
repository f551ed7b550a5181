"""The package that registers the data source: Spark registers the `DefaultSource` of each package `pyspark_*`."""

from hedwig.extras import needed

with needed("spark", "the data source needs"):
    import pyarrow  # noqa: F401 (first, so that one line names the extra that has everything)

    from hedwig.pipeline.source.datasource import HedwigDataSource as DefaultSource

__all__ = ["DefaultSource"]
