"""What ends a benchmark."""

__all__ = ["BenchmarkError"]


class BenchmarkError(Exception):
    """Something could not be measured: one line that says what, and why."""
