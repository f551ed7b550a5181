"""Tests of `hedwig.benchmarks.load`."""
