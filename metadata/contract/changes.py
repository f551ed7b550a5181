"""The keys of records that were changed, by whomever, as the store itself tells them while somebody wants to know.

What a store tells is all of it, or it says that it is not: whoever was told everything but a few changes would take
stores for equal that are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hedwig.errors import HedwigError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import RecordKey

__all__ = ["ChangedRecord", "Changes", "ChangesLostError", "ChangesUntoldError", "TracksChanges"]


@dataclass(frozen=True, slots=True)
class ChangedRecord:
    """A record that was written or deleted; it may be as it was before."""

    kind: RecordKind[Any]
    key: RecordKey


class ChangesLostError(HedwigError):
    """Not all that was changed since `begin` is known, and never will be: begin again, and look at every record."""


class ChangesUntoldError(HedwigError):
    """This store cannot tell which records are changed; the text says why."""


class Changes(Protocol):
    """The changes of one store since `begin`, exact: no change is missing, whoever makes it, or `take` says so."""

    async def begin(self) -> None:
        """Keep what is changed from now on, and forget what was kept so far. One at a time may do that with a store.

        Who reads a record after this through the same store, sees every change that will not be told.

        Raises: ChangesUntoldError - this store never will; MetadataUnavailableError, UncertainStateError - begin again.
        """
        ...

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        """Return up to `most` of the records that were changed, and forget them; fewer only if there are no more.

        What was changed before this has begun is returned by now, unless `most` are; a record that is changed after
        that will be returned by a later one, at the latest. Who reads a record after this through the same store, sees
        at least the changes that were returned.

        Raises: ChangesLostError - there is a hole in what is known, until the next `begin`; MetadataUnavailableError -
            not taken, or others have begun since; UncertainStateError - taken or not: one has to begin again.
        """
        ...

    async def end(self) -> None:
        """Keep nothing more. Raises: MetadataUnavailableError, UncertainStateError."""
        ...


@runtime_checkable
class TracksChanges(Protocol):
    """A backend that can keep the keys of changed records."""

    def changes(self, kinds: Sequence[RecordKind[Any]]) -> Changes:
        """Return the changes of records of `kinds`."""
        ...
