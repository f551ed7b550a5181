"""Tests of `hedwig.benchmarks.stores`."""
