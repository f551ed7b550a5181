"""What access control keeps of a store that moves: its next store gets that, and nothing else."""

from typing import Any, Final

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.access.records import AccessRecords
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords
from hedwig.metadata.contract.named_records import NamedRecords

__all__ = ["move_rules", "move_users"]

_ROUNDS: Final = 3
"""How often the records are copied until they are found equal."""


async def move_rules(source: NamedRecords, target: NamedRecords) -> int:
    """Make the rules of `target` those of `source`, and find them equal; return how many there are.

    Nobody changes the rules of either store meanwhile.

    Raises: MetadataUnavailableError - somebody does; MetadataError.
    """
    return sum(map(len, (await _move(RuleRecords(source), RuleRecords(target))).values()))


async def move_users(source: NamedRecords, target: NamedRecords) -> int:
    """Make the users of `target`, with their passwords, those of `source`, as `move_rules` does with the rules."""
    here, there = UserRecords(source), UserRecords(target)
    if (pepper := await here.pepper()) is not None:
        await there.make_pepper(pepper)
    return len(await _move(here, there))


async def _move(source: AccessRecords[Any], target: AccessRecords[Any]) -> dict[str, Any]:
    nothing = source.nothing.value
    for _ in range(_ROUNDS):
        wanted = {who: kept.value for who, kept in (await source.read()).items() if kept.value != nothing}
        present = {who: kept.value for who, kept in (await target.read()).items() if kept.value != nothing}
        if wanted == present:
            return wanted
        for who in wanted.keys() | present.keys():
            value = wanted.get(who, nothing)
            if value != present.get(who, nothing):
                await target.replace(who, value)
    raise MetadataUnavailableError(f"something still changes the {source.kind} of access control; try again")
