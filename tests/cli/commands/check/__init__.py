"""Tests of the commands `check`."""
