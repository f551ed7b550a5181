"""Commands whose standard output is a terminal of 80 columns."""

import contextlib
import os
import pty

from tests.cli.support.admin import Admin

__all__ = ["shown_on_terminal"]


def shown_on_terminal(admin: Admin, *arguments: str) -> str:
    """Run a command that must succeed; return what the terminal shows."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = admin.start(*arguments, stdout=theirs, COLUMNS="80")
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # The kernel reports the end of a terminal as an error.
            while chunk := screen.read(4096):
                shown += chunk
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    return shown.decode()
