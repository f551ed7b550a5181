"""Samples of hours in the memory of minutes: the more there are, the farther apart."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

__all__ = ["SAMPLES_MAX", "Downsampled"]

SAMPLES_MAX: Final = 8192

T = TypeVar("T")


class Downsampled(Generic[T]):
    """What was added, in its order: all of it below `samples_max`, from then on every second, fourth, eighth … one.

    The first and the newest are always among them. Those that were taken at even intervals lie as evenly as before, and
    once some are left out, two neighbours are apart by 2 ÷ `samples_max` of the whole time at most. So who looks for
    the samples around a border of nearly all of that time is off by a four-thousandth part of it, and no more.
    """

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self._samples_max = samples_max
        self._kept: list[T] = []
        self._newest: list[T] = []
        self._added = 0
        self._every = 1

    def add(self, sample: T) -> None:
        """Keep a sample, until there are too many of its kind."""
        if self._added % self._every == 0:
            self._kept.append(sample)
            self._newest = []
        else:
            self._newest = [sample]
        self._added += 1
        if len(self._kept) >= self._samples_max:
            if len(self._kept) % 2 == 0:
                self._newest = [self._kept[-1]]
            del self._kept[1::2]
            self._every *= 2

    def __iter__(self) -> Iterator[T]:
        yield from self._kept
        yield from self._newest

    def __len__(self) -> int:
        return len(self._kept) + len(self._newest)
