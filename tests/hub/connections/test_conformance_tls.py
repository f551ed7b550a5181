"""The TLS listener: the same protocol inside, TLS 1.2 at most, and no plain bytes."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError
from hedwig.hub.hub import Hub
from tests.hub.conftest import StartHub
from tests.hub.support.tls_client import make_certificate, trusting
from tests.hub.support.wire_channel import WireChannel
from tests.hub.support.wire_client import DEADLINE_S, WireClient, raw_request


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PEM file with a key and a self-signed certificate."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def hub(start_hub: StartHub, certificate: Path) -> Hub:
    """A hub with both listeners."""
    return await start_hub(tls_port=0, tls_certificate=str(certificate))


async def test_the_same_protocol_on_both_ports(hub: Hub) -> None:
    assert hub.tls_port is not None
    async with (
        await WireClient.connect(hub.tls_port, trusting()) as secure,
        await WireClient.connect(hub.port) as plain,
    ):
        await secure.subscribed(b"T", b"s")
        await plain.subscribed(b"T", b"plain")
        assert await plain.publish(b"T", b"1") == 1
        assert await secure.publish(b"T", b"x" * 1_000_000) == 2
        assert await secure.delivered(2) == [1, 2]
        assert await plain.delivered(2) == [1, 2]
        connection = secure.writer.get_extra_info("ssl_object")
        assert connection.version() == "TLSv1.2"


async def test_owner_records_name_the_tls_port(hub: Hub) -> None:
    assert hub.me.ssl_port == hub.tls_port
    assert hub.me.address == f"127.0.0.1:{hub.port}:{hub.tls_port}"


async def test_tls_1_3_is_refused(hub: Hub) -> None:
    assert hub.tls_port is not None
    context = trusting()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await WireClient.connect(hub.tls_port, context)


async def test_plain_bytes_on_the_tls_port_disturb_nobody(hub: Hub) -> None:
    assert hub.tls_port is not None
    async with (
        await WireClient.connect(hub.tls_port, trusting()) as secure,
        await WireChannel.open(hub.tls_port) as confused,
    ):
        confused.write_frame(raw_request(topic=b"T"))
        async with asyncio.timeout(DEADLINE_S):
            with contextlib.suppress(ConnectionResetError):
                await confused.reader.read()  # Read to the end, whatever TLS sends before it.
        assert await secure.publish(b"T", b"m") == 1


async def test_a_slow_reader_over_tls_loses_nothing(hub: Hub) -> None:
    assert hub.tls_port is not None
    async with (
        await WireClient.connect(hub.tls_port, trusting()) as slow,
        await WireClient.connect(hub.port) as publisher,
    ):
        await slow.subscribed(b"T", b"s")
        slow.stop_reading()
        await publisher.publish_many(b"T", *[b"x" * 50_000] * 100)
        slow.read_on()
        assert await slow.delivered(100) == list(range(1, 101))


async def test_a_shutdown_ends_tls_channels(hub: Hub) -> None:
    assert hub.tls_port is not None
    async with await WireClient.connect(hub.tls_port, trusting()) as client:
        await client.subscribed(b"T", b"s")
        async with asyncio.timeout(DEADLINE_S):
            await hub.close()
        await client.closed_by_hub()


async def test_a_certificate_that_cannot_be_used_is_an_error_at_the_start(start_hub: StartHub, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.pem"):
        await start_hub(tls_port=0, tls_certificate=str(tmp_path / "missing.pem"))
