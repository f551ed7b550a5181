"""Tests of `hedwig.benchmarks.drivers`."""
