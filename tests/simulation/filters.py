"""The message filter of the simulated hubs."""

from hedwig.model import SubscriberId, SubscriptionPreferences, Topic
from hedwig.wire import Message
from tests.simulation.history import accepts

__all__ = ["EvenFilter"]


class EvenFilter:
    """Accepts the messages whose body ends with an even number."""

    def __init__(self, topic: Topic, subscriber: SubscriberId, preferences: SubscriptionPreferences) -> None:
        """Take the arguments of every filter."""

    def accepts(self, message: Message) -> bool:
        return accepts(message.body)
