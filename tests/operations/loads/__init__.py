"""Tests of `hedwig.operations.loads`."""
