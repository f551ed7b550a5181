"""Tests of `hedwig.benchmarks.runs`."""
