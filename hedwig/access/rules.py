"""Rules: who may do what with which topics, or may not.

    allow group:shop     publish,create             orders/*
    allow group:billing  subscribe                  orders/*        as billing/*
    allow *              publish,subscribe,create   home/{user}/*   as {user}/*
    deny  user:mallory   *                          *

A rule with `as` counts for these subscriber ids only. A rule that allows to subscribe must have it: whoever may act as
any subscriber can take the messages of all others.
"""

from dataclasses import dataclass
from typing import Self

from hedwig.access.actions import SUBSCRIBERS, Action
from hedwig.access.patterns import Pattern
from hedwig.access.principals import Principal, check_who
from hedwig.errors import InvalidArgumentError

__all__ = ["Rule"]

_FORM = "a rule is: allow|deny user:NAME|group:NAME|* ACTIONS PATTERN [as PATTERN]"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Raises InvalidArgumentError - it cannot be one, and why."""

    allows: bool
    who: str
    """user:NAME, group:NAME, or * for everybody."""
    actions: Action
    topics: Pattern
    subscribers: Pattern | None = None
    """As whom one may or may not subscribe and unsubscribe. None: no matter as whom, and only in a rule that denies."""

    def __post_init__(self) -> None:
        check_who(self.who)
        if not self.actions:
            raise InvalidArgumentError("a rule names at least one action")
        acts_as = bool(self.actions & SUBSCRIBERS)
        if self.subscribers is not None and not acts_as:
            raise InvalidArgumentError("only rules on subscribe and unsubscribe say as whom")
        if self.subscribers is None and acts_as and self.allows:
            raise InvalidArgumentError("a rule that allows to subscribe or unsubscribe says as whom; `as *` is anybody")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a rule. Raises InvalidArgumentError - it is none, and why."""
        words = text.split()
        if len(words) not in (4, 6) or words[0] not in ("allow", "deny") or words[4:5] not in ([], ["as"]):
            raise InvalidArgumentError(f"{_FORM}; this is none: {text!r}")
        subscribers = Pattern.parse(words[5]) if len(words) == 6 else None
        return cls(words[0] == "allow", words[1], Action.parse(words[2]), Pattern.parse(words[3]), subscribers)

    def concerns(self, principal: Principal, action: Action, topic: bytes, subscriber: bytes | None = None) -> bool:
        """Return whether the rule decides about this, if no other does. `subscriber` is given for SUBSCRIBERS only."""
        if self.who not in principal.known_as or action not in self.actions:
            return False
        if not self.topics.matches(topic, principal.name):
            return False
        if action not in SUBSCRIBERS or self.subscribers is None:
            return True
        return subscriber is not None and self.subscribers.matches(subscriber, principal.name)

    def __str__(self) -> str:
        effect = "allow" if self.allows else "deny"
        said = f" as {self.subscribers}" if self.subscribers is not None else ""
        return f"{effect} {self.who} {self.actions.spelled} {self.topics}{said}"
