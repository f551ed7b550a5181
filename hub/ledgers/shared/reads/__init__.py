"""Reads of sealed segments, shared by all who wait for the same entries."""
