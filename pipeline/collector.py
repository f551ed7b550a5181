"""The garbage collector while a task reads or writes very many records."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["few_collections"]

_THRESHOLDS: Final = (50_000, 20, 100)


@contextmanager
def few_collections() -> Iterator[None]:
    """Have the collector look at young objects in larger lots until this ends.

    Its default is made for programs with few objects: reading 100,000 subscriptions took 45 µs of a processor for each
    with it, and 24 µs so (20 µs without any collection). Records make no cycles: what is let go of is freed at once.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
