"""Tests of `hedwig.hub.subscriptions`."""
