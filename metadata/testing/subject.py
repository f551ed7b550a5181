"""The subject of a test: a store, and how to reach it. Also how much the suite may ask of the backend."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from hedwig.metadata import MetadataStore, StoreOptions, format_metadata, open_metadata
from hedwig.metadata.testing.probe import Probe

__all__ = ["Effort", "Subject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much the suite may ask of a backend.

    stores_are_cheap: every test can have a store of its own. examples: the number of examples for the search among
    sequences of operations. quick_pairs: the number of quick pairs of a deletion and a creation, none of which may
    vanish.
    """

    stores_are_cheap: bool = True
    examples: int = 20
    quick_pairs: int = 500


@dataclass(frozen=True, slots=True)
class Subject:
    """One store, which only this test or module uses.

    `url` opens it. `kept` says whether it outlives the last client. `probe` reads it without the code under test. It
    takes an open store, because a database in memory can only be reached through that. `gather` and `stores_file` set
    these options.
    """

    url: str
    probe: Callable[[MetadataStore | None], Probe]
    kept: bool = True
    gather: bool = False
    stores_file: str = ""

    async def format(self, options: StoreOptions | None = None, *, wipe: bool = False) -> None:
        """Format the store."""
        await format_metadata(self.url, self.with_own(options), wipe=wipe)

    async def open(self, options: StoreOptions | None = None) -> MetadataStore:
        """Open the store."""
        return await open_metadata(self.url, self.with_own(options))

    @contextmanager
    def formatted(self) -> Iterator[Self]:
        """Format the store, and drop it at the end. For fixtures outside an event loop."""
        asyncio.run(self.format())
        yield self
        asyncio.run(self.drop())

    async def drop(self) -> None:
        """Drop the store if it would be in the way of later tests. Other stores are dropped at the end of the run."""

    def with_own(self, options: StoreOptions | None) -> StoreOptions:
        """Return the options of a test, with those of the subject added."""
        return replace(options or StoreOptions(), gather=self.gather, stores_file=self.stores_file)
