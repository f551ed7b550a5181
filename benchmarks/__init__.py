"""The harness that measures hubs and metadata backends: the command hedwig-bench.

A workload says what is done. A driver says against what, and with which client. Results are files.
See docs/how-to/benchmarks.md.
"""

if __name__ != "hedwig.benchmarks":
    # Under a second name each class would exist twice, and `isinstance` would fail between the two.
    raise ImportError("benchmarks is imported as hedwig.benchmarks, by that name alone")

__all__: list[str] = []
