"""Hubs in the test's own event loop, and channels to them, all closed at the end of the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.hub import process
from hedwig.hub.hub import Hub
from hedwig.hub.ledgers import LocalLedgerOptions, LocalLedgerStore
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.configuration import Configuration
from hedwig.hub.options.options import HubOptions
from tests.hub.ledgers.support.faulty_disk import FaultyDisk
from tests.hub.support.wire_client import WireClient

__all__ = ["Connect", "StartHub"]

StartHub = Callable[..., Awaitable[Hub]]
Connect = Callable[..., Awaitable[WireClient]]

_MIB = 1 << 20


@pytest.fixture
def hub_options(tmp_path: Path) -> HubOptions:
    """The options that hubs of this test start from."""
    ledgers = LocalLedgerOptions(segment_bytes=_MIB, reserve_bytes=1 << 16, upkeep_interval_s=0.05)
    return HubOptions(
        data_directory=tmp_path / "data",
        port=0,
        admin_port=-1,
        retention_interval_s=3600.0,
        access=AccessOptions(mode="open"),
        repeat_window_s=0.0,  # What is consumed goes at once. Tests of repeats start hubs with a window.
        ledgers=ledgers,
    )


@pytest.fixture
async def start_hub(hub_options: HubOptions, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartHub]:
    """Start a hub: `start_hub(disk=..., **options)`. One hub after the other may serve the same data directory."""
    hubs: list[Hub] = []
    open_store = LocalLedgerStore.open

    async def start(*, disk: FaultyDisk | None = None, replace_standalone: bool = False, **options: Any) -> Hub:
        async def open_on_disk(path: Path, settings: LocalLedgerOptions | None = None) -> LocalLedgerStore:
            return await open_store(path, settings, disk)

        monkeypatch.setattr(LocalLedgerStore, "open", open_on_disk)
        configuration = Configuration(replace(hub_options, **options))
        hub = await process.start_hub(configuration, replace_standalone=replace_standalone)
        hubs.append(hub)
        return hub

    yield start
    for hub in hubs:
        await hub.close()


@pytest.fixture
async def hub(start_hub: StartHub) -> Hub:
    """A hub whose ledgers take three messages each."""
    return await start_hub(ledger_messages_max=3)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open a channel: `connect(hub)`."""
    async with AsyncExitStack() as stack:

        async def connect(hub: Hub) -> WireClient:
            return await stack.enter_async_context(await WireClient.connect(hub.port))

        yield connect


@pytest.fixture
async def client(hub: Hub, connect: Connect) -> WireClient:
    """A channel to the hub."""
    return await connect(hub)
