"""Prove that a store is used only with its own layout, and that an error explains every mismatch."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from hedwig.errors import (
    ConfigurationError,
    CorruptRecordError,
    HedwigError,
    LayoutError,
    LayoutMismatchError,
    LayoutMissingError,
    MetadataUnavailableError,
)
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from hedwig.metadata.contract.layout import FORMAT_MAJOR, SHARED_LOGS_MAJOR
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.doors import CALLS
from hedwig.metadata.testing.subject import Subject
from hedwig.versions import NEW, Versioned
from tests.metadata.support.backends import BACKENDS, KEPT_BACKENDS, BackendRow
from tests.metadata.support.layout_probe import LayoutProbe

PATIENCE_S = 30.0
"""Far more than the timeouts of the operations, far less than a user would wait."""

NO_BACKEND = (
    "",
    "sqlite",
    "/path/to/file",
    "nosuch://localhost:1/hedwig",
    "sqlite:/path?a=1&a=2",
    "hbase+thrift://[::1/hedwig",
)
WRONG_URLS = (*NO_BACKEND, *(url for row in BACKENDS for url in row.wrong_urls))
SERVED_BACKENDS = tuple(row for row in KEPT_BACKENDS if row.url_at("localhost", 1) is not None)


def _one_line(error: HedwigError) -> str:
    """Return the error text that the user sees; it must be one line."""
    text = str(error)
    assert text
    assert "\n" not in text
    return text


# --------------------------------------------------------------------------------------------------------------- format


async def _layout_probe(clients: Clients, subject: Subject) -> LayoutProbe:
    probe = await clients.probe(subject)
    assert isinstance(probe, LayoutProbe)
    return probe


async def test_bare_store_is_refused_with_the_command_that_formats_it(bare_subject: Subject) -> None:
    for _ in range(2):
        with pytest.raises(LayoutMissingError) as refusal:
            await bare_subject.open()
        assert f"hedwig-admin metadata format --metadata '{bare_subject.url}'" in _one_line(refusal.value)
    await bare_subject.format()
    async with await bare_subject.open() as store:
        assert await store.ownership.read(CALLS[0].key(b"topic").topic) is None


async def test_format_again_keeps_all_and_wipe_nothing(kept_subject: Subject) -> None:
    async with await kept_subject.open() as store:
        versions = {call.label: await call.write(store, call.key(b"topic"), call.value(1), NEW) for call in CALLS}
    await kept_subject.format()
    async with await kept_subject.open() as store:
        for call in CALLS:
            assert await call.read(store, call.key(b"topic")) == Versioned(call.value(1), versions[call.label])
    await kept_subject.format(wipe=True)
    async with await kept_subject.open() as store:
        assert set((await store.count()).values()) == {0}
        assert [topic async for topic in store.topics()] == []
        for call in CALLS:
            assert await call.read(store, call.key(b"topic")) is None
            again = await call.write(store, call.key(b"topic"), call.value(1), NEW)
            # A client that was paused during the wipe must get a refusal too.
            assert again != versions[call.label]


async def test_many_may_format_at_once(bare_subject: Subject) -> None:
    await asyncio.gather(*(bare_subject.format() for _ in range(4)))
    async with await bare_subject.open() as store:
        assert set((await store.count()).values()) == {0}


# --------------------------------------------------------------------------------------------------------------- layout


async def test_layout_of_another_backend_or_release_is_refused(kept_subject: Subject, clients: Clients) -> None:
    probe = await _layout_probe(clients, kept_subject)
    async with await kept_subject.open() as store:
        written = await CALLS[0].write(store, CALLS[0].key(b"topic"), CALLS[0].value(1), NEW)
    scheme = kept_subject.url.partition(":")[0].partition("+")[0]

    await probe.write_layout("otherstore", FORMAT_MAJOR, 0)
    for attempt in (kept_subject.open, kept_subject.format):
        with pytest.raises(LayoutMismatchError) as refusal:
            await attempt()
        text = _one_line(refusal.value)
        assert "otherstore" in text
        assert scheme in text

    await probe.write_layout(None, SHARED_LOGS_MAJOR + 1, 0)
    for attempt in (kept_subject.open, kept_subject.format):
        with pytest.raises(LayoutMismatchError) as refusal:
            await attempt()
        text = _one_line(refusal.value)
        assert f"format {SHARED_LOGS_MAJOR + 1}" in text
        assert f"formats {FORMAT_MAJOR} and {SHARED_LOGS_MAJOR};" in text

    await probe.write_layout(None, FORMAT_MAJOR, 99)
    await kept_subject.format()
    async with await kept_subject.open() as store:
        assert await CALLS[0].read(store, CALLS[0].key(b"topic")) == Versioned(CALLS[0].value(1), written)
        await CALLS[0].write(store, CALLS[0].key(b"topic"), CALLS[0].value(2), written)


async def test_unreadable_layout_is_refused(kept_subject: Subject, clients: Clients) -> None:
    probe = await _layout_probe(clients, kept_subject)
    await probe.damage_layout()
    with pytest.raises((LayoutError, CorruptRecordError)) as refusal:
        await kept_subject.open()
    _one_line(refusal.value)


async def test_missing_structure_is_named_with_the_command_that_makes_it(
    kept_subject: Subject, clients: Clients
) -> None:
    async with await kept_subject.open() as store:
        ownership = await CALLS[0].write(store, CALLS[0].key(b"topic"), CALLS[0].value(1), NEW)
    probe = await _layout_probe(clients, kept_subject)
    missing = await probe.drop_structure()
    with pytest.raises(LayoutMissingError) as refusal:
        await kept_subject.open()
    text = _one_line(refusal.value)
    assert missing in text
    assert f"hedwig-admin metadata format --metadata '{kept_subject.url}'" in text
    await kept_subject.format()
    async with await kept_subject.open() as store:
        assert await CALLS[1].read(store, CALLS[1].key(b"topic")) is None
        kept = await CALLS[0].read(store, CALLS[0].key(b"topic"))
        assert kept in (None, Versioned(CALLS[0].value(1), ownership))


# ----------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.parametrize("url", WRONG_URLS)
async def test_wrong_url_is_explained(url: str) -> None:
    for attempt in (open_metadata, format_metadata):
        with pytest.raises(ConfigurationError) as refusal:
            async with asyncio.timeout(PATIENCE_S):
                await attempt(url, StoreOptions(operation_timeout_s=2))
        text = _one_line(refusal.value)
        # The error shows what was wrong or what would be right.
        assert len(text) > 30
        assert any(part in text for part in (url, url.partition("?")[2].partition("=")[0] or url, url.split("/")[-1]))


# -------------------------------------------------------------------------------------------------- no reachable server


@pytest.fixture(params=SERVED_BACKENDS, ids=lambda row: row.label)
def served_backend(request: pytest.FixtureRequest) -> BackendRow:
    """Return each backend that needs a server in turn."""
    row: BackendRow = request.param
    return row


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """Return a port of this machine that accepts connections and never sends anything."""

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


async def _is_unavailable(row: BackendRow, port: int) -> None:
    url = row.url_at("127.0.0.1", port)
    assert url is not None
    for attempt in (open_metadata, format_metadata):
        with pytest.raises(MetadataUnavailableError) as refusal:
            async with asyncio.timeout(PATIENCE_S):
                await attempt(url, StoreOptions(operation_timeout_s=0.5))
        _one_line(refusal.value)


async def test_refused_connection_is_reported_in_time(served_backend: BackendRow, closed_port: int) -> None:
    await _is_unavailable(served_backend, closed_port)


async def test_silent_server_is_reported_in_time(served_backend: BackendRow, silent_port: int) -> None:
    await _is_unavailable(served_backend, silent_port)
