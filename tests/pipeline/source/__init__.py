"""Tests of `hedwig.pipeline.source`."""
