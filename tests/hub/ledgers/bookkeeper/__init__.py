"""Tests of the BookKeeper client."""
