"""Fair turns: items wait, each for one source or several, and the sources have a turn one after the other."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["FairTurns"]

T = TypeVar("T", bound=Hashable)


class FairTurns(Generic[T]):
    """A queue for each source, first come, first served. However long one of them is, the others wait no longer.

    An item that several sources wait for stands in the queue of each, and has one turn: the first that comes.
    """

    __slots__ = ("_queues", "_sources")

    def __init__(self) -> None:
        self._queues: OrderedDict[Hashable, OrderedDict[T, None]] = OrderedDict()
        """By source, in the order of their next turns."""
        self._sources: dict[T, list[Hashable]] = {}
        """Who waits for each item."""

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._sources)

    def __contains__(self, item: T) -> bool:
        return item in self._sources

    def waiting_for(self, source: Hashable) -> int:
        """Return how many items wait for `source`."""
        return len(self._queues.get(source, ()))

    def add(self, item: T, source: Hashable) -> None:
        """Have `item` wait for `source`, behind its others; nothing if it does already."""
        queue = self._queues.setdefault(source, OrderedDict())
        if item not in queue:
            queue[item] = None
            self._sources.setdefault(item, []).append(source)

    def take(self) -> T:
        """Return the item whose turn it is; it waits no more. Raises KeyError if none waits."""
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
