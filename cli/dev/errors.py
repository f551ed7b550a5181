"""The errors that the launcher reports to its user.

OperationError
└── DevError
    ├── UnknownServerError   the directory has no server of that name
    ├── NotAnsweringError    a server did not answer before the deadline
    └── NotReadyError        a server does not do its work yet: the launcher asks again
"""

from typing import ClassVar

from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode

__all__ = ["DevError", "NotAnsweringError", "NotReadyError", "UnknownServerError"]


class DevError(OperationError):
    """Say in one line what failed, on what, why, and what to do.

    If a server is the cause, `log_tail` holds the last lines of its log. They are also a note of the exception, so that
    an uncaught one shows them.
    """

    _CODE: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, self._CODE)
        self.log_tail = log_tail
        if log_tail:
            self.add_note("\n".join(log_tail))


class UnknownServerError(DevError):
    """The directory has no server of that name."""

    _CODE = ExitCode.NOT_FOUND


class NotAnsweringError(DevError):
    """A server runs, but did not answer before the deadline."""

    _CODE = ExitCode.OUTCOME_UNKNOWN


class NotReadyError(DevError):
    """A server does not do its work yet. The text says what is missing."""
