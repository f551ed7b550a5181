"""Users with passwords: what is kept of them, from which no password can be read."""

from dataclasses import dataclass, field
from typing import Final

from hedwig.access.principals import check_principal_name
from hedwig.errors import InvalidArgumentError

__all__ = ["VERIFIERS_MAX", "User", "Verifier"]

VERIFIERS_MAX: Final = 2
"""How many passwords of a user may count at a time: a new one, and that before it for a while."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What checks one password by SCRAM-SHA-256 (RFC 5802). `until` is when it ends to count: seconds since 1970."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    until: float | None = None


@dataclass(frozen=True, slots=True)
class User:
    """The groups of a user, and its passwords, the newest first. Without passwords there is no such user.

    All passwords have the salt of the first, since a hub must name it before it knows which one a client has.

    Raises: InvalidArgumentError - a group has no such name, or the passwords are too many or differ in their salt.
    """

    groups: frozenset[str] = frozenset()
    verifiers: tuple[Verifier, ...] = ()

    def __post_init__(self) -> None:
        for group in self.groups:
            check_principal_name(group)
        if len(self.verifiers) > VERIFIERS_MAX or len({(each.salt, each.iterations) for each in self.verifiers}) > 1:
            raise InvalidArgumentError(f"a user has up to {VERIFIERS_MAX} passwords, of the same salt and iterations")

    def counting(self, now: float) -> tuple[Verifier, ...]:
        """Return the passwords that count at a moment, in seconds since 1970."""
        return tuple(each for each in self.verifiers if each.until is None or now < each.until)
