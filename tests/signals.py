"""What processes that a test starts do with signals."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["born_with"]


@contextmanager
def born_with(disposition: signal.Handlers, number: signal.Signals) -> Iterator[None]:
    """Have processes that are started meanwhile ignore a signal from birth, as shells and nohup do, or not."""
    previous = signal.signal(number, disposition)
    try:
        yield
    finally:
        signal.signal(number, previous)
