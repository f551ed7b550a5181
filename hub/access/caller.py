"""A caller: who sends the requests of a connection, and what that principal may do with the topics it has asked for."""

from typing import Final

from hedwig.access import Principal, Rights, RuleBook, TopicRights

__all__ = ["Caller"]

_TOPICS_MAX: Final = 10_000
"""For how many topics a connection keeps what it may do. Beyond, it asks the rules anew."""


class Caller:
    """The principal of one connection, and its rights by the rules of one moment."""

    __slots__ = ("_book", "_rights", "_topics", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self._book: RuleBook | None = None
        self._rights: Rights | None = None
        self._topics: dict[bytes, TopicRights] = {}

    def rights(self, topic: bytes, book: RuleBook) -> TopicRights:
        """Return what the principal may do with a topic by these rules."""
        if book is not self._book or self._rights is None:
            self._book, self._rights = book, book.rights(self.principal)
            self._topics = {}
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= _TOPICS_MAX:
                self._topics = {}
            found = self._topics[topic] = self._rights.of(topic)
        return found
