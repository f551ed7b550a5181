"""Tests of `hedwig.hub.admin`."""
