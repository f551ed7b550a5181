"""Tests of `hedwig.benchmarks.report`."""
