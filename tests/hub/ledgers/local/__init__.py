"""Tests of `hedwig.hub.ledgers.local`."""
