"""Tests of `hedwig.pipeline.audit`."""
