"""Tests of `hedwig.metadata.records`."""
