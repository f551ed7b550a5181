"""Helpers of every folder of tests."""
