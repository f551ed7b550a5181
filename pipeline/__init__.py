"""The metadata in bulk, as Arrow batches and as Spark DataFrames: a thin layer over the bulk functions of `metadata`.

The core (`schemas`, `plan`, `scan`, `apply`) does not use Spark. The data source `hedwig` and the jobs are shims over
it. So nothing here imports pyspark before it is needed, and the core runs wherever pyarrow is installed.
"""

if __name__ != "hedwig.pipeline":
    # Imported under two names, each class would exist twice, and an instance of one would not be one of the other.
    raise ImportError("pipeline is imported as hedwig.pipeline, by that name alone")

__all__: list[str] = []
