"""Stores under test: the servers, the data in them, and how these are filled."""
