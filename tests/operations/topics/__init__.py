"""Tests of what is done to topics."""
