"""Tests of `hedwig.pipeline.frames`."""
