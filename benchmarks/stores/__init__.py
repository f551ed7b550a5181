"""Stores under test: the servers, the data in them, and how they are filled."""
