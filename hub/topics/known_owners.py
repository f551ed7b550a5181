"""Owners of topics that are not this hub's, as they were last seen: clients that ask again need not cost a read."""

from collections import OrderedDict
from collections.abc import Callable

from hedwig.clock import Clock
from hedwig.model import HubInfo, Topic

__all__ = ["KnownOwners"]


class KnownOwners:
    """At most so many owners, each for a while, and no longer than it seems to live and to keep its topics.

    What is known may be wrong: the owner may have released the topic. It is good enough for a client that asks for the
    first time, which will be told by that hub; one that was sent here by the owner's word is never sent back by it.
    """

    def __init__(self, entries_max: int, kept_s: float, clock: Clock, seems_alive: Callable[[HubInfo], bool]) -> None:
        self._entries_max = entries_max
        self._kept_s = kept_s
        self._clock = clock
        self._seems_alive = seems_alive
        self._owners: OrderedDict[Topic, tuple[HubInfo, float]] = OrderedDict()
        """Each with when it was seen."""

    def __len__(self) -> int:
        return len(self._owners)

    def note(self, topic: Topic, owner: HubInfo) -> None:
        """Remember what an owner record said just now."""
        if self._kept_s <= 0:
            return
        self._owners[topic] = owner, self._clock.monotonic()
        self._owners.move_to_end(topic)
        if len(self._owners) > self._entries_max:
            self._owners.popitem(last=False)

    def forget(self, topic: Topic) -> None:
        """Drop what was known of a topic."""
        self._owners.pop(topic, None)

    def find(self, topic: Topic, within_s: float | None = None) -> HubInfo | None:
        """Return the owner, if it is known and seems to keep it; with `within_s`, only if it was seen so lately."""
        found = self._owners.get(topic)
        if found is None:
            return None
        owner, seen_at = found
        age_s = self._clock.monotonic() - seen_at
        if age_s >= self._kept_s or not self._seems_alive(owner):
            del self._owners[topic]
            return None
        return owner if within_s is None or age_s < within_s else None
