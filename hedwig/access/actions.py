"""Actions: what somebody may do with a topic."""

import enum
from typing import Self

from hedwig.errors import InvalidArgumentError

__all__ = ["Action"]


class Action(enum.IntFlag):
    """One action, or a set of them."""

    PUBLISH = 1
    CREATE = 2
    """Publish or subscribe to a topic that does not exist yet."""
    SUBSCRIBE = 4
    """Attach as a subscriber, consume, close, and change the preferences."""
    UNSUBSCRIBE = 8
    READ = 16
    """Read stored messages through the admin endpoint."""
    VIEW = 32
    """See names and states, and never a message."""
    OPERATE = 64
    """Change what a hub or a store does, as operators do."""
    GRANT = 128
    """Change the rules."""

    @classmethod
    def all(cls) -> Self:
        """Return the set of all actions."""
        return ~cls(0)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read actions with commas between them, or `*` for all. Raises InvalidArgumentError."""
        if text == "*":
            return cls.all()
        found = cls(0)
        for word in text.split(","):
            try:
                found |= cls[word.upper()]
            except KeyError:
                names = ", ".join(each.spelled for each in cls)
                raise InvalidArgumentError(f"'{word}' is no action; the actions are {names}, and * for all") from None
        return found

    @property
    def spelled(self) -> str:
        """Return the text that `parse` reads."""
        if self == Action.all():
            return "*"
        return ",".join(each.name.lower() for each in Action if each in self and each.name is not None)


SUBSCRIBERS = Action.SUBSCRIBE | Action.UNSUBSCRIBE
"""The actions of somebody who acts as a subscriber. Rules say as which."""
