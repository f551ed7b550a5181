"""Tests of the launcher of real servers."""
