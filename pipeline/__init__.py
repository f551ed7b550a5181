"""The metadata in bulk, as Arrow batches and as Spark DataFrames, thin over the bulk functions of `metadata`.

The core (`schemas`, `plan`, `scan`, `apply`) knows no Spark; the data source `hedwig` and the jobs are shims over it.
So nothing here imports pyspark before it is needed, and the core runs wherever pyarrow is.
"""

if __name__ != "hedwig.pipeline":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("pipeline is imported as hedwig.pipeline, by that name alone")

__all__: list[str] = []
