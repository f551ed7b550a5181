"""Named records: the few small facts about a store as a whole, kept beside its layout.

They belong to no topic, so no manager keeps them, no listing shows them, and a wipe leaves them alone. Formatting does
not create them: a store that was formatted before a name was introduced has no record of that name yet.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from hedwig.errors import MetadataUnavailableError, UncertainStateError

__all__ = ["NamedRecords", "replace_surely"]

_TRIES: Final = 16
_DOUBTS_MAX: Final = 2
"""After so many outcomes that are not known, each a whole operation timeout later, the store is silent."""


class NamedRecords(Protocol):
    """The named records of one open store. A name is 1 to 64 lower-case letters, digits and hyphens."""

    async def read(self, name: str) -> bytes | None:
        """Return the current value of `name`, including earlier writes of any client; None if it has none.

        Raises: MetadataUnavailableError - the store did not answer within the operation timeout.
        """
        ...

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        """Store `value` under `name` if that holds `expected` (None: nothing); return whether it was stored.

        The store compares values, so `value` must be one that the name never held before. It must not be empty. False
        may also follow a lost answer if others have written since.

        Raises: MetadataUnavailableError - surely not stored; UncertainStateError - not known yet: read the name.
        """
        ...

    async def delete(self, name: str, expected: bytes) -> bool:
        """Delete `name` if it holds `expected`; return whether it then had no value.

        Nobody may write the name again: an earlier write of which the outcome was never known could bring its value
        back. False may also follow a lost answer.

        Raises: MetadataUnavailableError - surely not deleted; UncertainStateError - not known yet: read the name.
        """
        ...

    async def names(self, prefix: str) -> Sequence[str]:
        """Return the names that begin with `prefix`, in order, including earlier writes of any client.

        A name that is written or deleted meanwhile may be included or not.

        Raises: MetadataUnavailableError - the store did not answer within the operation timeout.
        """
        ...


async def replace_surely(records: NamedRecords, name: str, expected: bytes | None, value: bytes) -> bool:
    """Store `value` under `name` if that holds `expected`; return whether it was stored, which is then certain.

    Raises: MetadataUnavailableError - surely not stored; UncertainStateError - not known after many tries.
    """
    doubts = 0
    for _ in range(_TRIES):
        try:
            done = await records.replace(name, expected, value)
            stored = value if done else await records.read(name)
        except UncertainStateError:
            doubts += 1
            if doubts == _DOUBTS_MAX:
                raise
            continue
        except MetadataUnavailableError as exc:
            if doubts:
                raise UncertainStateError(f"the record {name!r} of the store: sent, but {exc}") from exc
            raise
        if stored == value:
            return True
        if stored != expected:
            return False
    raise UncertainStateError(f"the record {name!r} of the store could not be written; try again")
