"""Tests of `hedwig.benchmarks.suites`."""
