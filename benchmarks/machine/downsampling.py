"""Samples of many hours in bounded memory: the more samples there are, the farther apart are those that are kept."""

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

__all__ = ["SAMPLES_MAX", "Downsampled"]

SAMPLES_MAX: Final = 8192

T = TypeVar("T")


class Downsampled(Generic[T]):
    """The added samples in their order: all of them below `samples_max`, then every second, fourth, eighth … one.

    The first and the newest sample are always kept. Samples taken at even intervals remain evenly spaced. Once some are
    dropped, two neighbours are at most 2 ÷ `samples_max` of the whole time apart. So if a window spans nearly all of
    that time, the samples around its border are off by at most a four-thousandth of it.
    """

    def __init__(self, samples_max: int = SAMPLES_MAX) -> None:
        self._samples_max = samples_max
        self._kept: list[T] = []
        self._newest: list[T] = []
        self._added = 0
        self._every = 1

    def add(self, sample: T) -> None:
        """Add a sample; it is kept until samples are thinned."""
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
