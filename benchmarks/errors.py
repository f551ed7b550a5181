"""The error that ends a benchmark."""

from hedwig.errors import OperationError

__all__ = ["BenchmarkError"]


class BenchmarkError(OperationError):
    """Something could not be measured. Its text is one line that says what, and why."""
