"""The harness that measures hubs and metadata backends: the command hedwig-bench.

Workloads say what is done, drivers against what and by which client, results are files: see docs/benchmarks.md.
"""

__all__: list[str] = []
