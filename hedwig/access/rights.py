"""Rights: what the rules say about one principal, found without reading the rules one by one.

A rule that denies wins over all that allow. What no rule allows is denied. A question about a topic costs a look for
its name and one for each length that a pattern of this principal has, however many rules there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

from hedwig.access.actions import SUBSCRIBERS, Action
from hedwig.access.limits import Limit
from hedwig.access.patterns import Pattern
from hedwig.access.principals import Principal
from hedwig.access.rules import Rule

__all__ = ["Rights", "RuleBook", "TopicRights"]

_SUBSCRIBERS: Final = int(SUBSCRIBERS)


class TopicRights:
    """What a principal may do with one topic, or what some rules say about it.

    Actions are plain numbers here: a question comes with each publish, and an `IntFlag` costs three times the rest.
    """

    __slots__ = (
        "_allowed",
        "_allowed_as",
        "_denied",
        "_denied_as",
        "_user",
        "backlog_limits",
        "connection_limits",
        "count_limits",
        "limits",
    )

    def __init__(self, user: str = "") -> None:
        self._user = user
        self._allowed = self._denied = 0
        self._allowed_as: tuple[tuple[int, Pattern], ...] = ()
        self._denied_as: tuple[tuple[int, Pattern], ...] = ()
        self.limits: tuple[Limit, ...] = ()
        """How much the principal may publish."""
        self.connection_limits: tuple[Limit, ...] = ()
        """How many connections it may have."""
        self.count_limits: tuple[Limit, ...] = ()
        """How many topics and subscriptions there may be, if it makes them."""
        self.backlog_limits: tuple[Limit, ...] = ()
        """How much of the topic may not be consumed yet, if it publishes."""

    def add_rule(self, rule: Rule | Limit) -> None:
        """Let a rule or a limit count that is about this principal and this topic."""
        if isinstance(rule, Limit):
            if rule.connections is not None:
                self.connection_limits += (rule,)
            if rule.publishes_per_s is not None or rule.publish_bytes_per_s is not None:
                self.limits += (rule,)
            if rule.topics_max is not None or rule.subscriptions_max is not None:
                self.count_limits += (rule,)
            if rule.backlog_bytes_max is not None:
                self.backlog_limits += (rule,)
            return
        actions = int(rule.actions)
        if rule.subscribers is not None:
            found = (actions & _SUBSCRIBERS, rule.subscribers)
            if rule.allows:
                self._allowed_as += (found,)
            else:
                self._denied_as += (found,)
            actions &= ~_SUBSCRIBERS
        if rule.allows:
            self._allowed |= actions
        else:
            self._denied |= actions

    def add(self, rights: "TopicRights") -> None:
        """Let the rules count that others have been made from."""
        self._allowed |= rights._allowed
        self._denied |= rights._denied
        self._allowed_as += rights._allowed_as
        self._denied_as += rights._denied_as
        self.limits += rights.limits
        self.connection_limits += rights.connection_limits
        self.count_limits += rights.count_limits
        self.backlog_limits += rights.backlog_limits

    def may(self, action: int) -> bool:
        """Return whether an action is allowed that is not one of SUBSCRIBERS."""
        return self._allowed & ~self._denied & action != 0

    def may_as(self, action: int, subscriber: bytes) -> bool:
        """Return whether one of SUBSCRIBERS is allowed as that subscriber."""
        return (
            not self._denied & action
            and _says(self._allowed_as, action, subscriber, self._user)
            and not _says(self._denied_as, action, subscriber, self._user)
        )


def _says(found: tuple[tuple[int, Pattern], ...], action: int, subscriber: bytes, user: str) -> bool:
    return any(actions & action and each.matches(subscriber, user) for actions, each in found)


class _Table:
    """What rules say, by the names of topics, and by how these begin."""

    __slots__ = ("_exact", "_lengths", "_prefixes")

    def __init__(self, rules: Iterable[tuple[bytes, Rule | Limit]]) -> None:
        self._exact: dict[bytes, TopicRights] = {}
        self._prefixes: dict[bytes, TopicRights] = {}
        for name, rule in rules:
            (self._prefixes if rule.topics.is_prefix else self._exact).setdefault(name, TopicRights()).add_rule(rule)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})

    def collect(self, topic: bytes, rights: TopicRights) -> None:
        """Let all rules count that are about a topic."""
        found = self._exact.get(topic)
        if found is not None:
            rights.add(found)
        for length in self._lengths:
            if length > len(topic):
                break
            found = self._prefixes.get(topic[:length])
            if found is not None:
                rights.add(found)


class _Part:
    """The rules for one user or group, or for everybody."""

    __slots__ = ("bounds_backlogs", "of_user", "rules", "table")

    def __init__(self, rules: Sequence[Rule | Limit]) -> None:
        self.rules = rules
        self.bounds_backlogs = any(isinstance(rule, Limit) and rule.backlog_bytes_max is not None for rule in rules)
        self.table = _Table((rule.topics.of(""), rule) for rule in rules if not rule.topics.names_user)
        self.of_user = [rule for rule in rules if rule.topics.names_user]
        """The rules whose topics depend on who asks. There are few: one is for all users."""


class Rights:
    """What one principal may do. It is made once for a connection, and again when the rules change."""

    __slots__ = ("_principal", "_tables")

    def __init__(self, principal: Principal, tables: Iterable[_Table]) -> None:
        self._principal = principal
        self._tables = tuple(tables)

    def of(self, topic: bytes) -> TopicRights:
        """Return what the principal may do with a topic, whether that exists or not."""
        rights = TopicRights(self._principal.name)
        for table in self._tables:
            table.collect(topic, rights)
        return rights


class RuleBook:
    """All rules and limits, as they are at one moment."""

    def __init__(self, rules: Mapping[str, Sequence[Rule | Limit]], like: "RuleBook | None" = None) -> None:
        """`rules`: by whom they are for. `like`: other rules; of what is the same there, nothing is made anew."""
        self._rules = rules
        self._parts: dict[str, _Part] = {}
        for who, of_one in rules.items():
            part = like._parts.get(who) if like is not None else None
            self._parts[who] = part if part is not None and part.rules is of_one else _Part(of_one)
        self.bounds_backlogs = any(part.bounds_backlogs for part in self._parts.values())
        """Whether a limit bounds what of a topic is not consumed yet. If not, nobody need look for one."""

    @classmethod
    def of(cls, rules: Iterable[Rule | Limit]) -> Self:
        """Make a book of rules in any order."""
        found: dict[str, list[Rule | Limit]] = {}
        for rule in rules:
            found.setdefault(rule.who, []).append(rule)
        return cls(found)

    def rights(self, principal: Principal) -> Rights:
        """Return what a principal may do."""
        parts = [self._parts[who] for who in principal.known_as if who in self._parts]
        tables = [part.table for part in parts]
        of_user = [rule for part in parts for rule in part.of_user]
        if of_user:
            tables.append(_Table((rule.topics.of(principal.name), rule) for rule in of_user))
        return Rights(principal, tables)

    def why(
        self, principal: Principal, action: Action, topic: bytes, subscriber: bytes | None = None
    ) -> tuple[bool, Rule | None]:
        """Return whether an action is allowed, and the rule that says so; None if there is none. Reads many rules."""
        found = [
            rule
            for who in principal.known_as
            for rule in self._rules.get(who, ())
            if isinstance(rule, Rule) and rule.concerns(principal, action, topic, subscriber)
        ]
        for rule in found:
            if not rule.allows:
                return False, rule
        return bool(found), found[0] if found else None
