"""Message filters: a subscription names one, and the hub delivers only the messages that it accepts.

A filter is Python code of the operator. A client names it by a string; Java clients send the name of a class. A
registry maps these names to `module:attribute`. A package with a filter may register it as an entry point of the group
`hedwig.filters` instead. The filter on properties is built in.
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Protocol

from hedwig.errors import ConfigurationError, InvalidMessageFilterError
from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.property_filter import FILTER_NAME, PASS_ALL_NAME, PropertyFilter
from hedwig.wire import Message

__all__ = ["FilterMaker", "FilterRegistry", "MessageFilter"]

_log = logging.getLogger(__name__)


class MessageFilter(Protocol):
    """Decides which messages a subscription gets. Each attachment has its own. It runs in the event loop: be quick."""

    def accepts(self, message: Message) -> bool:
        """Return whether to deliver `message`. If this raises, the hub delivers the message and logs the error."""
        ...


FilterMaker = Callable[[Topic, SubscriberId, SubscriptionPreferences], MessageFilter]
"""Makes the filter of one attachment; raises any exception to refuse the preferences.

The hub calls it before it stores the preferences, so the attachment may still fail.
"""


class FilterRegistry:
    """The filters that subscriptions can name."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        """Load all filters. Raises: ConfigurationError - one cannot be loaded."""
        self._makers: dict[str, FilterMaker] = {FILTER_NAME: lambda _topic, _name, given: PropertyFilter.of(given)}
        for entry in entry_points(group="hedwig.filters"):
            self._makers.setdefault(entry.name, entry.load())
        for name, reference in configured.items():
            if name == FILTER_NAME:
                raise ConfigurationError(f"the message filter {name!r} is built in; give yours another name")
            self._makers[name] = _load(name, reference)

    def names(self) -> list[str]:
        return sorted(self._makers)

    def make(
        self, topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences
    ) -> MessageFilter | None:
        """Return the filter that `preferences` name; None if they name none.

        Raises: InvalidMessageFilterError - there is no such filter, or it refuses the preferences.
        """
        name = preferences.message_filter
        if not name or name == PASS_ALL_NAME:
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


def _load(name: str, reference: str) -> FilterMaker:
    module, _, attribute = reference.partition(":")
    try:
        maker: FilterMaker = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ConfigurationError(
            f"the message filter {name!r} cannot be loaded from {reference!r}: {exc}; give it as module:attribute"
        ) from exc
    if not callable(maker):
        raise ConfigurationError(f"the message filter {name!r} is {reference!r}, which cannot be called")
    return maker
