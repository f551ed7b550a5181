"""Tests of `hedwig.concurrency`."""
