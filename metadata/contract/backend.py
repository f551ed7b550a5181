"""What a backend is: tables, a layout, and a way to make both.

Third parties add a backend by an entry point of the group `hedwig.metadata`. Its name is the URL scheme, and it loads
an object with the functions of `BackendFactory`.
"""

import enum
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from hedwig.clock import Clock, SystemClock
from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.kinds import RecordKind
from hedwig.metadata.contract.layout import Layout
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.contract.operations import RecordKey
from hedwig.metadata.contract.table import VersionedTable
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.model import SubscriberId, Topic
from hedwig.versions import Version

if TYPE_CHECKING:
    from hedwig.metadata.contract.write_gate import WriteGate

__all__ = [
    "Backend",
    "BackendFactory",
    "CatchesUp",
    "Estimate",
    "Estimates",
    "IndexState",
    "KeepsSubscriberIndex",
    "ListsBySubscriber",
    "StoreOptions",
    "regions_for",
]

R = TypeVar("R")

_TOPICS_OF_A_SERVER: Final = 2_500_000
_REGIONS_OF_A_SERVER: Final = 4


def regions_for(topics: int) -> int:
    """Return how many HBase regions each table should have for a number of topics: four for each 2.5 million.

    The block cache of a region server with 4 GiB of heap has room for the owners and ranges of so many topics. Further
    regions make a server slower: operations that could travel together go to different regions, and after a kill each
    region is opened by itself. docs/how-to/hbase.md says what that costs.
    """
    return _REGIONS_OF_A_SERVER * max(1, -(-topics // _TOPICS_OF_A_SERVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How to use a store of any kind.

    `operation_timeout_s` bounds every operation. `in_flight_max` bounds how many wait for the store at once; further
    ones wait their turn here. `page_rows` is the most records in one page of a listing. `regions` is the number of
    HBase regions into which `format` splits each table. `children_max` is the most names that a store in ZooKeeper
    takes in one reply, unless its URL says otherwise.

    `stores_file` is the path of the file with what to show to the store (hedwig.store_access); empty: nothing.

    With `gather`, single operations of concurrent callers travel together, unless the backend gathers them by itself.
    It is for a process with many callers, each with one operation at a time.
    """

    operation_timeout_s: float = 30.0
    in_flight_max: int = 1024
    page_rows: int = 1000
    regions: int = 16
    children_max: int = 1_000_000
    stores_file: str = ""
    gather: bool = False
    makes: bool = True
    """Whether `open` creates a missing store, if that takes no further step: in SQLite."""
    indexes_subscribers: bool = False
    """Whether `format` gives a new store an index of subscriptions by subscriber, where that is a table of its own."""
    reads_only: bool = False
    """Whether the caller only reads, so that a write-protected SQLite file can be opened. Writes may fail."""
    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=Random)
    """Draws the tokens of writes. The system seeds it once, since asking the system costs a system call per write."""
    gate: "WriteGate | None" = None
    """The gate through which all writes of the managers go, so that its holder can hold them back."""

    def __post_init__(self) -> None:
        bounds = (self.in_flight_max, self.page_rows, self.regions, self.children_max)
        if self.operation_timeout_s <= 0 or min(bounds) < 1:
            raise ConfigurationError("timeouts, limits and page sizes of a metadata store must be positive")


class Backend(Protocol):
    """An open store."""

    @property
    def partial_update(self) -> bool:
        """Say whether a merging write leaves the stored bytes of absent parts unchanged."""
        ...

    @property
    def gathers(self) -> bool:
        """Say whether the backend itself sends single operations of concurrent callers together."""
        ...

    @property
    def named_records(self) -> NamedRecords:
        """Return the records of the store as a whole."""
        ...

    def table(self, kind: RecordKind[R]) -> VersionedTable[R]:
        """Return the table that keeps the records of `kind`."""
        ...

    def sort_key(self, topic: Topic) -> bytes:
        """Return bytes that sort in the order in which this backend lists topics."""
        ...

    def topics(self, prefix: bytes | None, start_after: Topic | None) -> AsyncGenerator[Topic, None]:
        """Iterate over the topics that have a record of any kind, each once, in the order of `sort_key`.

        Close the iterator if you leave it early.
        """
        ...

    async def count(self, advance: Callable[[int], None]) -> Mapping[str, int]:
        """Return the number of records of each kind, by its name, as cheaply as possible.

        A backend that has to read them calls `advance` with the number of records that each step counted.
        """
        ...

    async def describe(self) -> Mapping[str, str | int]:
        """Return facts about the store for people: server versions, tables, HBase regions, sizes.

        Numbers are plain, with the unit as the last word of their name.
        """
        ...

    async def set_format(self, major: int, *, unless: str | None = None) -> bool:
        """Record `major` as the format of the store; return whether this call did. It may be repeated.

        With `unless`, nothing is recorded if a named record begins with it, or if anybody has called this, for whatever
        format, since these were listed. So whoever writes such a record first, and records a format then, has the last
        word.

        Raises: LayoutError - the layout is gone, or of a format that is not known here; MetadataUnavailableError,
            UncertainStateError - not recorded, or not everywhere, or not known: repeat it. Wherever it was recorded in
            part, the store has the higher format.
        """
        ...

    async def sweep(self, older_than_s: float, *, dry_run: bool) -> int:
        """Remove what deletes more than `older_than_s` seconds ago left behind; return the number of those records.

        With `dry_run`, only count them.
        """
        ...

    async def close(self) -> None:
        """Close every connection and end every thread. Operations under way fail. May be called twice."""
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """A backend whose reads may return a slightly older state."""

    async def catch_up(self) -> None:
        """Return once reads that follow see every write of any client up to now.

        Raises: MetadataUnavailableError - the store does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, or about that number."""

    number: int
    is_exact: bool


@runtime_checkable
class Estimates(Protocol):
    """A backend that has to read all records to count them, but can tell much sooner about how many there are."""

    async def estimate(self) -> Mapping[str, Estimate]:
        """Return about how many records of each kind there are, by its name; exactly, if they are few.

        Raises: MetadataUnavailableError - the store does not answer.
        """
        ...


class IndexState(enum.StrEnum):
    """What is known about the index of a store."""

    OFF = "off"
    """Nobody keeps it."""
    KEPT = "kept"
    """Who opens the store from now on keeps it. Subscriptions from before may be missing."""
    WHOLE = "whole"
    """It has every subscription."""


@runtime_checkable
class ListsBySubscriber(Protocol):
    """A backend that finds the topics of a subscriber without reading all subscriptions."""

    def topics_of(self, subscriber: SubscriberId, start_after: Topic | None) -> AsyncGenerator[list[Topic], None]:
        """Iterate over pages of topics after one, by their bytes; close the iterator if you leave it early.

        Each topic with a subscription of this subscriber is among them. Others may be too, so read the subscriptions.
        """
        ...


@runtime_checkable
class KeepsSubscriberIndex(ListsBySubscriber, Protocol):
    """A backend that finds them by an index that whoever makes subscriptions has to keep.

    Source: hedwig.metadata.calls.indexed_table. Its entries are the table of kinds.BY_SUBSCRIBER. Until the index is
    whole, `topics_of` may leave out topics.
    """

    @property
    def index_state(self) -> IndexState:
        """What the store said of its index when it was opened."""
        ...

    async def set_index_state(self, state: IndexState) -> None:
        """Record what is known of the index. Unless it is off, make its table first, if there is none. May be repeated.

        Raises: MetadataUnavailableError, UncertainStateError - not recorded, or not known.
        """
        ...

    def stray_entries(self, older_than_s: float) -> AsyncGenerator[list[tuple[RecordKey, Version]], None]:
        """As `MetadataStore.stray_entries`."""
        ...


class BackendFactory(Protocol):
    """How a URL scheme becomes a backend."""

    async def read_layout(self, url: MetadataUrl, options: StoreOptions) -> Layout | None:
        """Return the layout record of the store at `url`, or None if there is none."""
        ...

    async def open(self, url: MetadataUrl, options: StoreOptions) -> Backend:
        """Open a formatted store.

        Raises: LayoutMissingError - it was never formatted, or a table is missing; LayoutMismatchError - it is another
            backend's, or of another major format; MetadataUnavailableError - it does not answer.
        """
        ...

    async def format(self, url: MetadataUrl, options: StoreOptions, *, wipe: bool = False) -> Layout:
        """Create what is missing of the store, and return its layout; with `wipe`, delete all of its records first.

        Named records stay, also with `wipe`.
        """
        ...
