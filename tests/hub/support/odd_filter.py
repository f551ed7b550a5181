"""Message filters for the tests, as an operator would write them."""

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message

__all__ = ["OddFilter", "odd_property"]


class OddFilter:
    """Accepts messages whose body is an odd number, or the property that the option `property` names."""

    def __init__(self, topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences) -> None:
        if "fail" in preferences.options:
            raise ValueError("the option fail was given")
        self._property = preferences.options.get("property", b"").decode()

    def accepts(self, message: Message) -> bool:
        return int(message.properties[self._property] if self._property else message.body) % 2 == 1


def odd_property(topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences) -> OddFilter:
    """Return the same filter, for subscriptions with the option `property` only."""
    if "property" not in preferences.options:
        raise ValueError("the option property is missing")
    return OddFilter(topic, subscriber, preferences)
