"""The keys of records that were changed, by whomever, kept by the store itself while somebody wants to know them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from metadata.kinds import RecordKind
from metadata.operations import RecordKey

__all__ = ["ChangedRecord", "Changes", "TracksChanges"]


@dataclass(frozen=True, slots=True)
class ChangedRecord:
    """A record that was written or deleted; it may be as it was before."""

    kind: RecordKind[Any]
    key: RecordKey


class Changes(Protocol):
    """The changes of one store since `begin`, exact: kept in the same transaction as the change itself."""

    async def begin(self) -> None:
        """Keep what is changed from now on, and forget what was kept so far. One at a time may do that with a store.

        Raises: MetadataUnavailableError, UncertainStateError - begin again.
        """
        ...

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        """Return up to `most` of the records that were changed, and forget them; fewer only if there are no more.

        A record that is changed after this has begun will be returned by a later one, at the latest.

        Raises: MetadataUnavailableError - not taken, or others have begun since; UncertainStateError - taken or not:
            one has to begin again.
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
