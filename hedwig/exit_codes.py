"""The exit codes by which scripts see how a command ended. They are the same for every command of the project."""

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    VERSION_CONFLICT = 4
    OUTCOME_UNKNOWN = 5
    UNAVAILABLE = 6
    INTERRUPTED = 130
    """Ctrl-C: 128 + SIGINT, as shells report it."""
    PIPE_CLOSED = 141
    """The reader of standard output closed it: 128 + SIGPIPE."""
