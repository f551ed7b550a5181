"""Tests of `hedwig.hub.logs`."""
