"""What SIGTERM raises; apart from what handles it, which loads Spark."""

__all__ = ["Terminated"]


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM."""
