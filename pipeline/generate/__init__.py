"""Generated metadata, for tests and benchmarks."""
