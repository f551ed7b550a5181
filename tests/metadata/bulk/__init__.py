"""Tests of `hedwig.metadata.bulk`."""
