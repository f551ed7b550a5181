"""Stores for the tests, each closed at the end of its test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hedwig.clock import SystemClock
from hedwig.hub.ledgers import LedgerStore, LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.model import HubInfo
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.shared.support.records import RecordsInMemory
from tests.hub.ledgers.support.faulty_disk import FaultyDisk
from tests.support.servers import RunningServers


async def _nobody_is_alive(_: HubInfo) -> bool:
    return False


__all__ = ["OpenAnyStore", "OpenStore"]

_ON_BOOKIES = ("bookkeeper", "shared on bookkeeper")

OpenStore = Callable[..., Awaitable[LocalLedgerStore]]
OpenAnyStore = Callable[[], Awaitable[LedgerStore]]


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


@pytest.fixture(
    params=["local", "shared", *(pytest.param(kind, marks=pytest.mark.servers) for kind in _ON_BOOKIES)],
)
async def open_any_store(request: pytest.FixtureRequest, open_store: OpenStore) -> AsyncIterator[OpenAnyStore]:
    """Open a store of any kind: `open_any_store()`. All stores of one test have the same ledgers."""
    kind, records = request.param, RecordsInMemory()
    servers: RunningServers | None = request.getfixturevalue("servers") if kind in _ON_BOOKIES else None
    if servers is not None:
        servers.address("bookkeeper")
    async with AsyncExitStack() as stack:

        async def open_below() -> LedgerStore:
            if servers is None:
                return await open_store(segment_bytes=4096 if kind == "local" else 1 << 20)
            options = BookkeeperOptions.for_hubs(b"conformance")
            return await stack.enter_async_context(bookkeeper_store(servers.address("zookeeper"), options))

        async def open_it() -> LedgerStore:
            below = await open_below()
            if kind in ("local", "bookkeeper"):
                return below
            hub, options = HubInfo(host="here", port=4080), SharedLogOptions(segment_bytes=16 << 10, roll_pause_s=0.02)
            shared = await SharedLedgerStore.open(
                below, records, hub, SystemClock(), options, is_alive=_nobody_is_alive
            )
            stack.push_async_callback(shared.aclose)
            while (await shared.stats()).segments != 2:  # noqa: ASYNC110 (its first ledgers follow by themselves)
                await asyncio.sleep(0.01)
            return shared

        yield open_it


@pytest.fixture
async def any_store(open_any_store: OpenAnyStore) -> LedgerStore:
    """A store of either kind."""
    return await open_any_store()
