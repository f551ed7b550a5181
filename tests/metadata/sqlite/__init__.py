"""Tests of `hedwig.metadata.sqlite`."""
