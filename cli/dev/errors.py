"""What the launcher reports to its user.

DevError
├── UnknownServerError   there is no server of that name in the directory
└── NotAnsweringError    a server did not answer before the deadline
"""

__all__ = ["DevError", "NotAnsweringError", "UnknownServerError"]


class DevError(Exception):
    """Say in one line what failed, on what, why, and what to do.

    `log_tail` holds the last lines of the server's log when a server is the cause; they are a note of the exception
    too, so that an uncaught one shows them.
    """

    def __init__(self, message: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.log_tail = log_tail
        if log_tail:
            self.add_note("\n".join(log_tail))


class UnknownServerError(DevError):
    """The directory has no server of that name."""


class NotAnsweringError(DevError):
    """A server runs, yet did not answer before the deadline."""
