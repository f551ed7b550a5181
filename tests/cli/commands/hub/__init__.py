"""Tests of `hedwig.cli.commands.hub`."""
