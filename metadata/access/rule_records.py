"""The records of rules: who may do what."""

from typing import Any, ClassVar, TypeAlias

from hedwig.access import Limit, Rule, parse_rule
from hedwig.errors import InvalidArgumentError
from hedwig.metadata.access.records import AccessRecords, Kept

__all__ = ["KeptRules", "RuleRecords"]

KeptRules: TypeAlias = Kept[tuple[Rule | Limit, ...]]
"""The rules and limits of one user or group, or of everybody."""


class RuleRecords(AccessRecords[tuple[Rule | Limit, ...]]):
    """The rules and limits of a deployment."""

    kind = "rules"
    empty: ClassVar[Any] = ()
    advice = "Use fewer rules, on longer parts of names or for groups"

    @classmethod
    def to_plain(cls, who: str, value: tuple[Rule | Limit, ...]) -> list[str]:
        if any(rule.who != who for rule in value):
            raise InvalidArgumentError(f"only rules of {who} can be among those of {who}")
        return [str(rule) for rule in value]

    @classmethod
    def from_plain(cls, plain: Any) -> tuple[Rule | Limit, ...]:
        return tuple(parse_rule(text) for text in plain)
