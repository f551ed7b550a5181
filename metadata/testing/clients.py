"""The clients and probes of a store that a test opens. All are closed when the test ends."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from hedwig.metadata import MetadataStore, StoreOptions
from hedwig.metadata.testing.probe import Probe
from hedwig.metadata.testing.subject import Subject

__all__ = ["Clients", "Names"]

Names = Callable[[bytes], bytes]
"""Turns a short name into one that no other test uses."""


class Clients:
    """Opens clients of stores, and closes them at the end of the test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._alone: dict[int, MetadataStore] = {}

    async def open(self, subject: Subject, options: StoreOptions | None = None) -> MetadataStore:
        """Open another client of `subject`. If a store lives in one client only, return that client."""
        if not subject.kept and id(subject) in self._alone:
            return self._alone[id(subject)]
        store = await self._stack.enter_async_context(await subject.open(options))
        self._alone[id(subject)] = store
        return store

    async def probe(self, subject: Subject, store: MetadataStore | None = None) -> Probe:
        """Return a probe of `subject`."""
        probe = subject.probe(store)
        self._stack.push_async_callback(probe.close)
        return probe
