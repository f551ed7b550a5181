"""The records of users with passwords."""

import secrets
from typing import Any, ClassVar, Final

from hedwig.access.users import User, Verifier
from hedwig.metadata.access.records import AccessRecords
from hedwig.metadata.contract.named_records import replace_surely
from hedwig.metadata.contract.write_gate import passing

__all__ = ["UserRecords"]

_PEPPER: Final = "access-pepper"
_PEPPER_BYTES: Final = 32


class UserRecords(AccessRecords[User]):
    """The users of a deployment, by `user:NAME`."""

    kind = "users"
    empty: ClassVar[Any] = User()
    advice = "Put fewer users into many groups"

    @classmethod
    def to_plain(cls, who: str, value: User) -> Any:  # noqa: ARG003 (any user may be anybody)
        verifiers = [
            (each.salt, each.iterations, each.stored_key, each.server_key, each.until) for each in value.verifiers
        ]
        return sorted(value.groups), verifiers

    @classmethod
    def from_plain(cls, plain: Any) -> User:
        groups, verifiers = plain
        return User(frozenset(groups), tuple(Verifier(*each) for each in verifiers))

    async def pepper(self) -> bytes | None:
        """Return a secret of the deployment, the same for all hubs; None if nobody has made it.

        What hubs make up of users that do not exist depends on it, so that they all say the same.
        """
        return await self._records.read(_PEPPER)

    async def make_pepper(self, pepper: bytes | None = None) -> None:
        """Make that secret, unless there is one; `pepper` is that of a store from which users come."""
        async with passing(self._gate):
            while await self.pepper() is None:
                made = pepper or secrets.token_bytes(_PEPPER_BYTES)
                await replace_surely(self._records, _PEPPER, None, made)
