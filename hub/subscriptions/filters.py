"""Message filters: what a subscription names, so that the hub delivers only some messages.

A filter is Python code of the operator. Clients name it by whatever string they send, Java clients by the name of a
class; a registry maps these names to `module:attribute`, and whoever packages a filter may register it as an entry
point of the group `hedwig.filters` instead.
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Protocol

from hedwig.errors import ConfigurationError, InvalidMessageFilterError
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message

__all__ = ["FilterMaker", "FilterRegistry", "MessageFilter"]

_log = logging.getLogger(__name__)


class MessageFilter(Protocol):
    """Says which messages a subscription gets. Made for each attachment, and asked in the event loop, so be quick."""

    def accepts(self, message: Message) -> bool:
        """Return whether to deliver `message`. If this raises, the message is delivered, and the error logged."""
        ...


FilterMaker = Callable[[Topic, SubscriberId, SubscriptionPreferences], MessageFilter]
"""Makes the filter of one attachment; raises whatever it likes if the preferences make no sense to it.

It is asked before the preferences are stored, so the attachment may yet fail.
"""


class FilterRegistry:
    """The filters that subscriptions can name."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        """Load all filters. Raises ConfigurationError if one cannot be loaded."""
        self._makers: dict[str, FilterMaker] = {}
        for entry in entry_points(group="hedwig.filters"):
            self._makers[entry.name] = entry.load()
        for name, place in configured.items():
            self._makers[name] = _load(name, place)

    def names(self) -> list[str]:
        return sorted(self._makers)

    def make(
        self, topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences
    ) -> MessageFilter | None:
        """Return the filter that `preferences` name, None if they name none.

        Raises: InvalidMessageFilterError - there is no such filter, or it refuses the preferences.
        """
        name = preferences.message_filter
        if not name:
            return None
        maker = self._makers.get(name)
        if maker is None:
            known = ", ".join(self.names()) or "none"
            raise InvalidMessageFilterError(f"this hub has no message filter {name!r}; it has: {known}")
        try:
            return maker(topic, subscriber, preferences)
        except Exception as exc:
            _log.warning("the message filter %r cannot be made: %r", name, exc)
            raise InvalidMessageFilterError(f"the message filter {name!r} cannot be made: {exc!r}") from exc


def _load(name: str, place: str) -> FilterMaker:
    module, _, attribute = place.partition(":")
    try:
        maker: FilterMaker = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigurationError(
            f"the message filter {name!r} cannot be loaded from {place!r}: {exc}; give it as module:attribute"
        ) from exc
    if not callable(maker):
        raise ConfigurationError(f"the message filter {name!r} is {place!r}, which cannot be called")
    return maker
