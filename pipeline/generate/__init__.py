"""Metadata that no store ever held, made for tests and benchmarks."""
