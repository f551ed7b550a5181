"""The harness that measures hubs and metadata backends: the command hedwig-bench.

Workloads say what is done, drivers against what and by which client, results are files: see docs/how-to/benchmarks.md.
"""

if __name__ != "hedwig.benchmarks":
    # Under two names its classes exist twice, and none is an instance of the other.
    raise ImportError("benchmarks is imported as hedwig.benchmarks, by that name alone")

__all__: list[str] = []
