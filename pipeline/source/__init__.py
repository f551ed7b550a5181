"""The data source `hedwig` of Spark: reads that are planned, shared out and pushed down, and writes."""
