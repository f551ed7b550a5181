"""Fair turns: each item waits for one source or several, and the sources take turns."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FairTurns"]

T = TypeVar("T", bound=Hashable)


class FairTurns(Generic[T]):
    """A queue for each source, first come, first served. A long queue does not delay the others.

    An item of several sources is in the queue of each, and has one turn: the first of any of them.
    """

    __slots__ = ("_queues", "_sources")

    def __init__(self) -> None:
        self._queues: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        """By source, in the order of their next turns."""
        self._sources: dict[T, list[Hashable]] = {}
        """The sources in whose queues each item is."""

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._sources)

    def __contains__(self, item: T) -> bool:
        return item in self._sources

    def waiting_for(self, source: Hashable) -> int:
        """Return the number of items that wait for `source`."""
        return len(self._queues.get(source, ()))

    def add(self, item: T, source: Hashable) -> None:
        """Append `item` to the queue of `source`; do nothing if it is in it."""
        queue = self._queues.setdefault(source, OrderedDict())
        if item not in queue:
            queue[item] = None
            self._sources.setdefault(item, []).append(source)

    def take(self) -> T:
        """Remove and return the item whose turn it is. Raises KeyError if none waits."""
        source, queue = next(iter(self._queues.items()), (None, None))
        if queue is None:
            raise KeyError("nothing waits for a turn")
        self._queues.move_to_end(source)
        item = next(iter(queue))
        for each in self._sources.pop(item):
            waiting = self._queues[each]
            del waiting[item]
            if not waiting:
                del self._queues[each]
        return item
