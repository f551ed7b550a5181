"""How processes that a test starts handle signals."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["born_with"]


@contextmanager
def born_with(disposition: signal.Handlers, number: signal.Signals) -> Iterator[None]:
    """Have processes that start inside the block begin with a signal ignored, as by shells and nohup, or not."""
    previous = signal.signal(number, disposition)
    try:
        yield
    finally:
        signal.signal(number, previous)
