"""Stores for the tests, each closed at the end of its test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from tests.hub.ledgers.faulty_disk import FaultyDisk

__all__ = ["OpenStore"]

OpenStore = Callable[..., Awaitable[LocalLedgerStore]]


@pytest.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Open a store: `open_store(path=..., disk=..., **options)`, in the folder `ledgers` by default."""
    opened: list[LocalLedgerStore] = []

    async def open_(
        path: Path | None = None, disk: FaultyDisk | None = None, **options: int | float
    ) -> LocalLedgerStore:
        settings = {"upkeep_interval_s": 0.05, "reserve_bytes": 1 << 16} | options
        store = await LocalLedgerStore.open(path or tmp_path / "ledgers", LocalLedgerOptions(**settings), disk)  # type: ignore[arg-type]
        opened.append(store)
        return store

    yield open_
    for store in opened:
        await store.aclose()


@pytest.fixture
async def store(open_store: OpenStore) -> LocalLedgerStore:
    """A store of small segments."""
    return await open_store(segment_bytes=8192)
