"""The pipeline, from its core without Spark to jobs on a cluster."""
