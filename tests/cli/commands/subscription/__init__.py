"""Tests of `hedwig.cli.commands.subscription`."""
