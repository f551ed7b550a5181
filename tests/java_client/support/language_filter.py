"""A message filter as an operator writes it, which the tests register under the name of a Java class."""

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message

__all__ = ["NAME", "LanguageFilter"]

NAME = "org.example.LanguageFilter"


class LanguageFilter:
    """Passes messages whose property `lang` is what the subscription's option `lang` says."""

    def __init__(self, _topic: Topic, _subscriber: SubscriberId, preferences: SubscriptionPreferences) -> None:
        self._wanted = preferences.options["lang"]

    def accepts(self, message: Message) -> bool:
        """Return whether to deliver `message`."""
        return message.properties.get("lang") == self._wanted
