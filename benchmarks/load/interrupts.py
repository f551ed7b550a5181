"""Ctrl-C at moments when it would leave something behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["interrupt_later", "interrupt_when_told_to_end"]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_INTERRUPTS: Final = (signal.SIGINT, *_ENDING)


@contextmanager
def interrupt_when_told_to_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does: whoever ends a run that way must not leave its servers behind.

    What is ignored stays so: a run that was started with nohup is to outlive its terminal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, signal.default_int_handler) for each in heeded}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


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

    # The others too, where they do what Ctrl-C does.
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
