"""Tests of `hedwig.hub.connections`."""
