"""Prove that a hub takes a new certificate without a restart, and goes on with the old one if the new one is none."""

import asyncio
import ssl
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.hub.hub import Hub
from tests.faults.support.waiting import until
from tests.hub.conftest import StartHub
from tests.hub.support.tls_client import make_certificate, trusting


async def shown(hub: Hub) -> bytes:
    """Return the certificate that the hub shows to a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", hub.tls_port, ssl=trusting())
    try:
        connection = writer.get_extra_info("ssl_object")
        certificate: bytes = connection.getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()
        await writer.wait_closed()


async def test_new_files_count_for_new_connections_and_open_ones_go_on(
    start_hub: StartHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hedwig.hub.hub._TLS_FILES_S", 0.05)
    caplog.set_level("INFO", logger="hedwig.hub.connections.tls_files")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = map(make_certificate, folders)
    file = tmp_path / "hub.pem"
    file.write_bytes(first.read_bytes())
    hub = await start_hub(tls_port=0, tls_certificate=str(file))
    old = await shown(hub)
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port, hub.tls_port), tls=trusting())
    async with HedwigClient(options) as client:
        await client.publish("t", b"m")
        file.write_bytes(b"no certificate")
        await until(lambda: "go on with the files that they have read before" in caplog.text, "the hub says so")
        assert await shown(hub) == old
        file.write_bytes(second.read_bytes())
        await until(lambda: "as changed" in caplog.text, "the hub takes the new files")
        assert await shown(hub) == ssl.PEM_cert_to_DER_cert(
            second.read_text().partition("-----END PRIVATE KEY-----\n")[2]
        )
        assert (await client.publish("t", b"m")).local == 2
        assert client.counters.lost_connections == 0
