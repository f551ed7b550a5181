"""The message filter of the simulated hubs."""

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message
from tests.simulation.history import accepts

__all__ = ["EvenFilter"]


class EvenFilter:
    """Wants the messages whose body ends with an even number."""

    def __init__(self, topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences) -> None:
        """Take what every filter is given."""

    def accepts(self, message: Message) -> bool:
        return accepts(message.body)
