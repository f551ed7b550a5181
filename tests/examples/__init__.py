"""Tests of what examples/ shows: it runs, and it says what is wrong."""
