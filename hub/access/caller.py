"""A caller: who sends the requests of some connections, and what it may do with the topics that it has asked for."""

from typing import Final

from hedwig.access import Principal, Rights, RuleBook, TopicRights

__all__ = ["Caller"]

_TOPICS_MAX: Final = 100_000
"""For how many topics a caller keeps what it may do, some 20 MB. Beyond, it asks the rules anew."""
_NAME_BYTES_MAX: Final = 256
"""Of longer names nothing is kept."""


class Caller:
    """A principal, and its rights by the rules of one moment. All its connections share it."""

    __slots__ = ("__weakref__", "_book", "_rights", "_topics", "has_logged_in", "is_named", "principal", "publishes")

    def __init__(self, principal: Principal, *, is_named: bool = True, has_logged_in: bool = False) -> None:
        """`is_named`: it has said who it is, by a certificate or, with `has_logged_in`, by a login."""
        self.principal = principal
        self.is_named = is_named
        self.has_logged_in = has_logged_in
        self._book: RuleBook | None = None
        self._rights: Rights | None = None
        self._topics: dict[bytes, TopicRights] = {}
        self.publishes: set[bytes] = set()
        """Topics to which a publish passes without a question: the usual case, at the least cost.

        Access control adds a topic once it has let a publish pass that no limit counts. It empties the set before the
        rules change or are too old.
        """

    def rights(self, topic: bytes, book: RuleBook, *, is_kept: bool = True) -> TopicRights:
        """Return what the principal may do with a topic by these rules, and keep it for the next question."""
        if book is not self._book or self._rights is None:
            self._book, self._rights = book, book.rights(self.principal)
            self._topics = {}
        found = self._topics.get(topic)
        if found is None:
            found = self._rights.of(topic)
            if is_kept and len(topic) <= _NAME_BYTES_MAX:
                if len(self._topics) >= _TOPICS_MAX:
                    self._topics = {}
                    self.publishes.clear()
                self._topics[topic] = found
        return found

    def let_publish(self, topic: bytes) -> None:
        """Let publishes to a topic pass without a question, if its rights are kept."""
        if topic in self._topics:
            self.publishes.add(topic)
