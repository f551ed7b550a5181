"""Ctrl-C at moments when it would leave something behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interrupt_later"]


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Hold Ctrl-C back, and raise KeyboardInterrupt at the end if it came.

    Starting a process takes a while in which it runs already, and an exception would leave nobody who knows it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals are not handled here.
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
