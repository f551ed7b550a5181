"""Ctrl-C at moments when it would leave something behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["interrupt_later", "interrupt_on_sigterm"]

_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does: whoever ends a run that way must not leave its servers behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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

    # SIGTERM too, where it does what Ctrl-C does.
    held = [each for each in _INTERRUPTS if signal.getsignal(each) is signal.default_int_handler]
    for each in held:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each in held:
            signal.signal(each, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
