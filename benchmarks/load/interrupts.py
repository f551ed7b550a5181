"""Ctrl-C at moments when it would leave a process behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["interrupt_later", "interrupt_on_signals"]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
_INTERRUPTS: Final = (signal.SIGINT, *_ENDING)


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does, so that a run that they end leaves no servers behind.

    Signals that are ignored stay ignored: a run that was started with nohup is to outlive its terminal.
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

    A process that is being started runs before its caller has it. An exception in between would leave it running.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals are not handled here.
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    # Hold the other signals too, where they do what Ctrl-C does.
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
