"""The keys of records that any client changed, as the store itself reports them on request.

A store reports every change, or it reports a gap. If it silently missed a few, the caller would take stores for equal
that are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hedwig.errors import HedwigError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.operations import RecordKey

__all__ = ["ChangedRecord", "Changes", "ChangesLostError", "ChangesUnsupportedError", "TracksChanges"]


@dataclass(frozen=True, slots=True)
class ChangedRecord:
    """A record that was written or deleted. It may hold the same value as before."""

    kind: RecordKind[Any]
    key: RecordKey


class ChangesLostError(HedwigError):
    """Some changes since `begin` are unknown for good. The caller has to begin again and read every record."""


class ChangesUnsupportedError(HedwigError):
    """This store cannot report which records are changed. The text says why."""


class Changes(Protocol):
    """The exact changes of one store since `begin`. No change of any client is missing, or `take` says so."""

    async def begin(self) -> None:
        """Record the changes from now on, and drop those recorded so far. A store serves one caller at a time.

        A read through the same store after this sees every change that `take` will not return.

        Raises: ChangesUnsupportedError - this store never reports changes; MetadataUnavailableError,
            UncertainStateError - begin again.
        """
        ...

    async def take(self, most: int) -> Sequence[ChangedRecord]:
        """Return at most `most` of the changed records, and drop them; fewer only if there are no more.

        Unless `most` are returned, every change from before this call has been returned by now. A later call returns
        the changes made after that. A read through the same store after this sees at least the returned changes.

        Raises: ChangesLostError - some changes are unknown, until the next `begin`; MetadataUnavailableError - not
            taken, or another caller has begun since; UncertainStateError - taken or not: the caller has to begin again.
        """
        ...

    async def end(self) -> None:
        """Stop recording changes. Raises: MetadataUnavailableError, UncertainStateError."""
        ...


@runtime_checkable
class TracksChanges(Protocol):
    """A backend that can record the keys of changed records."""

    def changes(self, kinds: Sequence[RecordKind[Any]]) -> Changes:
        """Return the changes of records of `kinds`."""
        ...
