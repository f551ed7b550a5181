"""Tests of `hedwig.cli.settings`."""
