"""Tests of `hedwig.cli.loads`."""
