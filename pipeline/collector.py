"""The garbage collector while a task reads or writes very many records."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["few_collections"]

_THRESHOLDS: Final = (50_000, 20, 100)


@contextmanager
def few_collections() -> Iterator[None]:
    """Have the collector look at young objects less often, in larger lots, until the block ends.

    Its default suits programs with few objects. Reading 100,000 subscriptions took 45 µs of processor time each with
    the default, 24 µs with these thresholds, and 20 µs without any collection. Records make no reference cycles, so
    Python frees each one as soon as it is dropped.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
