"""Tests of `hedwig.pipeline.snapshots`."""
