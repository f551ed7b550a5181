"""The rules of a store that moves: its next store gets them, and no others."""

from typing import Final

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.contract.named_records import NamedRecords

__all__ = ["move_rules"]

_ROUNDS: Final = 3
"""How often the rules are copied until they are found equal."""


async def move_rules(source: NamedRecords, target: NamedRecords) -> int:
    """Make the rules of `target` those of `source`, and find them equal; return how many there are.

    Nobody changes the rules of either store meanwhile.

    Raises: MetadataUnavailableError - somebody does; MetadataError.
    """
    to = RuleRecords(target)
    for _ in range(_ROUNDS):
        wanted = {who: kept.value for who, kept in (await RuleRecords(source).read()).items() if kept.value}
        present = {who: kept.value for who, kept in (await to.read()).items() if kept.value}
        if wanted == present:
            return sum(map(len, wanted.values()))
        for who in wanted.keys() | present.keys():
            rules = wanted.get(who, ())
            if rules != present.get(who, ()):
                await to.replace(who, rules)
    raise MetadataUnavailableError("something still changes the rules of access control; try again")
