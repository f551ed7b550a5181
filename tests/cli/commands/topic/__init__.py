"""Tests of `hedwig.cli.commands.topic`."""
