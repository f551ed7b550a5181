"""Tests of `hedwig.cli.output`."""
