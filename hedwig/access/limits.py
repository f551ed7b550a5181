"""Limits: how much somebody may do, beside the rules on what.

    limit user:meter    publishes_per_s=50                            meters/*
    limit group:shop    publishes_per_s=1000,publish_bytes_per_s=20MiB  orders/*
    limit *             publishes_per_s=10                            home/{user}/*
    limit *             connections=100                               *
    limit group:shop    topics_max=200000,subscriptions_max=1000000     orders/*
    limit group:shop    backlog_bytes_max=64MiB                         orders/*

A limit of a group is for all its users together. A limit of `*` is for each user by itself. Each hub counts by itself.

But `topics_max` and `subscriptions_max` are for what there is in the whole deployment, whoever made it: the topics that
the pattern is for, and their subscriptions. They say when the users of the limit may make no more.

`backlog_bytes_max` is for each topic of the pattern by itself. It bounds the messages that a subscription has not
consumed yet, whoever published them. It says when the users of the limit may publish no more there.
"""

from dataclasses import dataclass
from typing import Final, Self

from hedwig.access.patterns import Pattern
from hedwig.access.principals import EVERYBODY, Principal, check_who
from hedwig.access.rules import Rule
from hedwig.errors import InvalidArgumentError
from hedwig.quantities import show_size, size_bytes

__all__ = ["Limit", "parse_rule"]

_FORM: Final = "a limit is: limit user:NAME|group:NAME|* NAME=VALUE,… PATTERN"
_PUBLISHES: Final = "publishes_per_s"
_BYTES: Final = "publish_bytes_per_s"
_CONNECTIONS: Final = "connections"
_TOPICS: Final = "topics_max"
_SUBSCRIPTIONS: Final = "subscriptions_max"
_BACKLOG: Final = "backlog_bytes_max"
_NAMES: Final = (_PUBLISHES, _BYTES, _BACKLOG, _CONNECTIONS, _TOPICS, _SUBSCRIPTIONS)
_NUMBERS: Final = _NAMES[3:]
_MOST: Final = 1e12


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit. Raises InvalidArgumentError - it cannot be one, and why."""

    who: str
    """user:NAME, group:NAME, or * for each user."""
    topics: Pattern
    publishes_per_s: float | None = None
    publish_bytes_per_s: int | None = None
    """Of the bodies of messages."""
    connections: int | None = None
    """At the same time."""
    topics_max: int | None = None
    subscriptions_max: int | None = None
    backlog_bytes_max: int | None = None
    """Of each topic, as its hub stores them."""

    def __post_init__(self) -> None:
        check_who(self.who)
        rates = (self.publishes_per_s, self.publish_bytes_per_s)
        given = (*rates, self.connections, self.topics_max, self.subscriptions_max, self.backlog_bytes_max)
        values = [each for each in given if each is not None]
        if not values:
            raise InvalidArgumentError(f"a limit names {', '.join(_NAMES)}, or some of them")
        if self.connections is not None and str(self.topics) != EVERYBODY:
            raise InvalidArgumentError(f"{_CONNECTIONS} are for no topic: the pattern of their limit is *")
        if not all(0 < value <= _MOST for value in values):
            raise InvalidArgumentError(
                f"a limit is above 0 and at most {_MOST:g}; if nothing is to pass, use a rule that denies"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a limit. Raises InvalidArgumentError - it is none, and why."""
        words = text.split()
        if len(words) != 4 or words[0] != "limit":
            raise InvalidArgumentError(f"{_FORM}; this is none: {text!r}")
        given: dict[str, str] = {}
        for each in words[2].split(","):
            name, equals, value = each.partition("=")
            if not equals or name not in _NAMES or name in given:
                raise InvalidArgumentError(
                    f"a limit names {_PUBLISHES}=N, {_BYTES}=SIZE, {_BACKLOG}=SIZE, {_CONNECTIONS}=N, {_TOPICS}=N or "
                    f"{_SUBSCRIPTIONS}=N, each once, not {each!r}"
                )
            given[name] = value
        try:
            publishes = float(given[_PUBLISHES]) if _PUBLISHES in given else None
            size, backlog = (size_bytes(given[name]) if name in given else None for name in (_BYTES, _BACKLOG))
            connections, topics, subscriptions = (int(given[name]) if name in given else None for name in _NUMBERS)
        except ValueError as exc:
            raise InvalidArgumentError(f"{text!r} is no limit: {exc}") from exc
        pattern = Pattern.parse(words[3])
        return cls(words[1], pattern, publishes, size, connections, topics, subscriptions, backlog)

    def counted_for(self, principal: Principal) -> str:
        """Return whose count a request of a principal is part of."""
        return str(principal) if self.who == EVERYBODY or self.topics.names_user else self.who

    @property
    def spelled(self) -> str:
        """Return the values as `parse` reads them."""
        values = []
        if self.publishes_per_s is not None:
            rate = self.publishes_per_s
            values.append(f"{_PUBLISHES}={int(rate) if rate == int(rate) else rate!r}")
        for name, size in ((_BYTES, self.publish_bytes_per_s), (_BACKLOG, self.backlog_bytes_max)):
            if size is not None:
                values.append(f"{name}={show_size(size).replace(' ', '')}")
        for name, number in zip(_NUMBERS, (self.connections, self.topics_max, self.subscriptions_max), strict=True):
            if number is not None:
                values.append(f"{name}={number}")
        return ",".join(values)

    def __str__(self) -> str:
        return f"limit {self.who} {self.spelled} {self.topics}"


def parse_rule(text: str) -> Rule | Limit:
    """Read the text of a rule or a limit. Raises InvalidArgumentError - it is neither, and why."""
    return Limit.parse(text) if text.split()[:1] == ["limit"] else Rule.parse(text)
