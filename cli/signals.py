"""Ctrl-C while hedwig-admin loads ends the process in order.

This module imports only what a starting Python has loaded anyway. Until it has run, Python handles Ctrl-C.
"""

import os
import signal

TYPE_CHECKING = False  # As `typing.TYPE_CHECKING`. Importing typing would take a third of the time until here.
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final, NoReturn

__all__ = ["begin_commands", "begin_loading"]

_INTERRUPTED: "Final" = 130
_COMPLETION_VARIABLE: "Final" = "_HEDWIG_ADMIN_COMPLETE"
"""The same values as in `hedwig.exit_codes` and `program`, which are not loaded yet."""


def begin_loading() -> None:
    """Make Ctrl-C end the process at once, since nothing was done yet."""
    # The parent process may have set Ctrl-C to be ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def begin_commands() -> None:
    """Make Ctrl-C raise KeyboardInterrupt again: a command begins, and ends in its own way."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: "FrameType | None") -> "NoReturn":
    # An exception could get lost in the imports, or print a traceback.
    try:
        if not os.environ.get(_COMPLETION_VARIABLE):  # Completion in a shell shows no message.
            os.write(2, b"interrupted\n")
    finally:
        os._exit(_INTERRUPTED)
