"""Principals: who asks. A principal has a name, and may be in groups."""

import re
from dataclasses import dataclass, field
from typing import Final

from hedwig.errors import InvalidArgumentError

__all__ = ["EVERYBODY", "Principal", "check_principal_name", "check_who"]

EVERYBODY: Final = "*"
"""Whom a rule is for that is for everybody."""

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,128}")


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was authenticated, or who came where nobody is asked.

    Raises: InvalidArgumentError - a name has other characters, or more than 128.
    """

    name: str
    groups: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        check_principal_name(self.name)
        for group in self.groups:
            check_principal_name(group)

    @property
    def known_as(self) -> tuple[str, ...]:
        """Return whom rules are for that concern this principal."""
        return f"user:{self.name}", *(f"group:{group}" for group in sorted(self.groups)), EVERYBODY

    def __str__(self) -> str:
        return f"user:{self.name}"


def check_principal_name(name: str) -> None:
    """Raise InvalidArgumentError unless `name` can be the name of a user or a group."""
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"the name of a user or a group has 1 to 128 letters, digits and ._@-, and is not {name!r}"
        )


def check_who(who: str) -> None:
    """Raise InvalidArgumentError unless a rule can be for `who`: user:NAME, group:NAME, or * for everybody."""
    if who != EVERYBODY:
        kind, colon, name = who.partition(":")
        if not colon or kind not in ("user", "group"):
            raise InvalidArgumentError(f"a rule is for user:NAME, group:NAME, or * for everybody, and not for {who!r}")
        check_principal_name(name)
