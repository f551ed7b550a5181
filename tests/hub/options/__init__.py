"""Tests of `hedwig.hub.options`."""
