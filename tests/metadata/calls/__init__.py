"""Tests of `hedwig.metadata.calls`."""
