"""Tests of `hedwig.cli.checks`."""
