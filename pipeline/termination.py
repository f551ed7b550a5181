"""The exception that SIGTERM raises, in a module apart from the handler, which loads Spark."""

__all__ = ["Terminated"]


class Terminated(KeyboardInterrupt):
    """The process was asked to end, by SIGTERM."""
