"""Ctrl-C while hedwig-admin is being loaded: it ends the process in order.

Loads nothing that a start of Python has not loaded yet: until it has run, Ctrl-C is Python's.
"""

import os
import signal

TYPE_CHECKING = False  # That of typing, which takes a third of the way to here.
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final, NoReturn

__all__ = ["begin_commands", "begin_loading"]

_INTERRUPTED: "Final" = 130
_COMPLETION_VARIABLE: "Final" = "_HEDWIG_ADMIN_COMPLETE"
"""Both as in `hedwig.exit_codes` and `program`, which are not loaded yet."""


def begin_loading() -> None:
    """Have Ctrl-C end the process at once: nothing was done yet."""
    # Whoever started it may have it ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def begin_commands() -> None:
    """Have Ctrl-C be a KeyboardInterrupt again: a command begins, and ends by its own ways."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: "FrameType | None") -> "NoReturn":
    # An exception could get lost among modules that are being loaded, or leave a traceback.
    try:
        if not os.environ.get(_COMPLETION_VARIABLE):  # A shell that completes has no place for it.
            os.write(2, b"interrupted\n")
    finally:
        os._exit(_INTERRUPTED)
