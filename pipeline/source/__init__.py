"""The data source `hedwig` of Spark: reads that are planned, shared out among tasks and pushed down, and writes."""
