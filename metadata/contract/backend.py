"""What a backend is: tables, a layout, and a way to make both.

Third parties add one by an entry point of the group `hedwig.metadata`, named by the URL scheme, that loads an object
with the functions of `BackendFactory`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.layout import Layout
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.model import Topic

if TYPE_CHECKING:
    from hedwig.metadata.contract.write_gate import WriteGate

__all__ = ["Backend", "BackendFactory", "CatchesUp", "StoreOptions"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How to use a store, whatever its kind.

    `operation_timeout_s` bounds every operation; `in_flight_max` bounds how many wait for the store at once (more wait
    their turn here); `page_rows` is how many records one page of a listing holds at most; `regions` is how many
    HBase regions `format` splits each table into; `children_max` is how many names a store in ZooKeeper takes in one
    reply, unless its URL says otherwise. With `gather`, single operations of concurrent callers travel
    together, where the backend does not see to that by itself: for a process with many callers, each with one operation
    at a time.
    """

    operation_timeout_s: float = 30.0
    in_flight_max: int = 1024
    page_rows: int = 1000
    regions: int = 16
    children_max: int = 1_000_000
    gather: bool = False
    makes: bool = True
    """Whether opening makes a store that is not there, where that takes no more: in SQLite."""
    reads_only: bool = False
    """Whether only reading is wanted, so that a SQLite file is opened which may not be written. Writes may fail."""
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=Random)
    """Draws the tokens of writes. Seeded by the system once: asking it each time is a system call for every write."""
    gate: "WriteGate | None" = None
    """What all writes of the managers go through, so that whoever has it can hold them back."""

    def __post_init__(self) -> None:
        bounds = (self.in_flight_max, self.page_rows, self.regions, self.children_max)
        if self.operation_timeout_s <= 0 or min(bounds) < 1:
            raise ConfigurationError("timeouts, limits and page sizes of a metadata store must be positive")


class Backend(Protocol):
    """An open store."""

    @property
    def partial_update(self) -> bool:
        """Say whether a merging write leaves absent parts' stored bytes untouched."""
        ...

    @property
    def gathers(self) -> bool:
        """Say whether single operations of concurrent callers travel together anyhow, below the tables."""
        ...

    @property
    def named_records(self) -> NamedRecords:
        """Return the records of the store as a whole."""
        ...

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        """Return the table that keeps the records of `kind`."""
        ...

    def sort_key(self, topic: Topic) -> bytes:
        """Return bytes whose order is the order in which this backend lists topics."""
        ...

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        """Iterate over the topics that have a record of any kind, each once, in the order of `sort_key`.

        Close it if it is left early.
        """
        ...

    async def count(self, advance: Callable[[int], None]) -> Mapping[str, int]:
        """Return how many records of each kind there are, by its name, as cheaply as can be.

        Where they have to be counted one by one, `advance` is told of each number that was counted further.
        """
        ...

    async def describe(self) -> Mapping[str, str | int]:
        """Return facts about the store for people: server versions, tables, HBase regions, sizes.

        Numbers are plain, with the unit as the last word of their name.
        """
        ...

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:
        """Remove what deletes more than `older_than_s` seconds ago left behind; return how many records that were.

        With `dry_run` they are only counted.
        """
        ...

    async def close(self) -> None:
        """Give up every connection and thread; operations under way fail. May be called twice."""
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """A backend whose reads may tell what was there a moment ago."""

    async def catch_up(self) -> None:
        """Return once reads that follow tell all that was written by now, by whomever.

        Raises: MetadataUnavailableError - it does not answer.
        """
        ...


class BackendFactory(Protocol):
    """How a URL scheme becomes a backend."""

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        """Return the layout record of the store at `url`, or None if there is none."""
        ...

    async def open(self, url: MetadataUrl, options: StoreOptions) -> Backend:
        """Open a formatted store.

        Raises: LayoutMissingError - it was never formatted, or a table is missing; LayoutMismatchError - it is another
            backend's, or of a newer major format; MetadataUnavailableError - it does not answer.
        """
        ...

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        """Make what is missing of the store, and return its layout; with `wipe`, delete all of its records first.

        Named records stay, also with `wipe`.
        """
        ...
