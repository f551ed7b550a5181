"""Ctrl-C in the middle of a test."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["interrupted_once"]

_AT_LAST_S: Final = 60.0


@contextmanager
def interrupted_once(is_due: Callable[[], object]) -> Iterator[None]:
    """Send SIGINT to the main thread in the block as soon as `is_due`, at the latest after a minute.

    The main thread should not be in a call to the JVM by then. It would get another JVM thread, which does not know the
    session that all tests share.
    """
    main = threading.main_thread().ident
    assert main is not None, "it runs"
    over = threading.Event()

    def send() -> None:
        deadline = time.monotonic() + _AT_LAST_S
        while not is_due() and time.monotonic() < deadline:
            if over.wait(0.02):
                return
        signal.pthread_kill(main, signal.SIGINT)

    sender = threading.Thread(target=send, name="Ctrl-C", daemon=True)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()
