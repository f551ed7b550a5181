"""Tests of `hedwig.benchmarks.machine`."""
