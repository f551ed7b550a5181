"""Named records: the few small facts about a store as a whole, kept beside its layout.

They are no topic's, so no manager keeps them, no listing shows them, and a wipe leaves them alone. Nothing has to be
laid out for them: a store that was formatted before a name was thought of has no record of that name yet.
"""

from typing import Final, Protocol

from hedwig.errors import MetadataUnavailableError, UncertainStateError

__all__ = ["NamedRecords", "replace_surely"]

_TRIES: Final = 16


class NamedRecords(Protocol):
    """The named records of one open store. A name is 1 to 64 lower-case letters and hyphens."""

    async def read(self, name: str) -> bytes | None:
        """Return the value of `name` as it is now, what any client wrote before included; None if it has none.

        Raises: MetadataUnavailableError - the store did not answer within the operation timeout.
        """
        ...

    async def replace(self, name: str, expected: bytes | None, value: bytes) -> bool:
        """Store `value` under `name` if that holds `expected` (None: nothing); return whether it was stored.

        Values are compared, so `value` must be one that the name never held before, and it is not empty. False may also
        follow a lost answer if others have written since.

        Raises: MetadataUnavailableError - surely not stored; UncertainStateError - no telling yet: read the name.
        """
        ...


async def replace_surely(records: NamedRecords, name: str, expected: bytes | None, value: bytes) -> bool:
    """Store `value` under `name` if that holds `expected`; return whether it was, which is known when this returns.

    Raises: MetadataUnavailableError - surely not stored; UncertainStateError - there was no telling in many tries.
    """
    in_doubt = False
    for _ in range(_TRIES):
        try:
            done = await records.replace(name, expected, value)
            found = value if done else await records.read(name)
        except UncertainStateError:
            in_doubt = True
            continue
        except MetadataUnavailableError as exc:
            if in_doubt:
                raise UncertainStateError(f"the record {name!r} of the store: sent, but {exc}") from exc
            raise
        if found == value:
            return True
        if found != expected:
            return False
    raise UncertainStateError(f"the record {name!r} of the store could not be written; try again")
