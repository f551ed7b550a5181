"""Tests of `hedwig.cli.commands.metadata`."""
