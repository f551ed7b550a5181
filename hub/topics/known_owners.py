"""Last seen owners of topics that other hubs own, so that repeated requests cost no read."""

from collections import OrderedDict
from collections.abc import Callable

from hedwig.clock import Clock
from hedwig.model import HubInfo, Topic

__all__ = ["KnownOwners"]


class KnownOwners:
    """Keeps at most `entries_max` owners, each for `kept_s`, while it seems to be alive and to keep its topics.

    An entry may be wrong, because the owner may have released the topic. It is good enough for the first request of a
    client, since that hub then redirects the client. A client that another hub redirected here never gets an answer
    from memory, so it is not sent back.
    """

    def __init__(self, entries_max: int, kept_s: float, clock: Clock, seems_alive: Callable[[HubInfo], bool]) -> None:
        self._entries_max = entries_max
        self._kept_s = kept_s
        self._clock = clock
        self._seems_alive = seems_alive
        self._owners: OrderedDict[Topic, tuple[HubInfo, float]] = OrderedDict()
        """The owner of each topic, and when it was seen."""

    def __len__(self) -> int:
        return len(self._owners)

    def note(self, topic: Topic, owner: HubInfo) -> None:
        """Store the owner that the owner record has just named."""
        if self._kept_s <= 0:
            return
        self._owners[topic] = owner, self._clock.monotonic()
        self._owners.move_to_end(topic)
        if len(self._owners) > self._entries_max:
            self._owners.popitem(last=False)

    def forget(self, topic: Topic) -> None:
        """Drop the owner of a topic."""
        self._owners.pop(topic, None)

    def find(self, topic: Topic, within_s: float | None = None) -> HubInfo | None:
        """Return the owner if it is known and seems to keep the topic; with `within_s`, only if seen that recently."""
        entry = self._owners.get(topic)
        if entry is None:
            return None
        owner, seen_at = entry
        age_s = self._clock.monotonic() - seen_at
        if age_s >= self._kept_s or not self._seems_alive(owner):
            del self._owners[topic]
            return None
        return owner if within_s is None or age_s < within_s else None
