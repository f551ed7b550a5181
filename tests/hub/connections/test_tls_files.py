"""Prove that a hub takes new TLS files without a restart, and goes on with the old ones if the new ones are none."""

import asyncio
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError, CouldNotConnectError
from hedwig.hub.admin.load import LoadSampler
from hedwig.hub.admin.metrics import Metrics
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from tests.faults.support.waiting import until
from tests.hub.conftest import StartHub
from tests.hub.support.tls_client import Authority, make_certificate, trusting
from tests.hub.support.wire_client import WireClient


def metric(hub: Hub, name: str) -> float:
    """Return a figure of the hub's metrics."""
    [value] = [
        sample.value
        for family in Metrics(hub, LoadSampler(hub)).collect()
        for sample in family.samples
        if sample.name == f"hedwig_hub_{name}"
    ]
    return float(value)


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


@pytest.mark.parametrize("connections", [10, pytest.param(1000, marks=pytest.mark.full)])
async def test_new_files_count_for_new_connections_and_open_ones_go_on(
    start_hub: StartHub,
    connections: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("hedwig.hub.hub._TLS_FILES_S", 0.05)
    caplog.set_level("INFO", logger="hedwig.hub.connections.tls.files")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = map(make_certificate, folders)
    file = tmp_path / "hub.pem"
    file.write_bytes(first.read_bytes())
    hub = await start_hub(tls_port=0, tls_certificate=str(file))
    old = await shown(hub)
    assert hub.tls_port is not None
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port, hub.tls_port), tls=trusting())
    async with HedwigClient(options) as client, AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(await WireClient.connect(hub.tls_port, trusting()))
            for _ in range(connections)
        ]
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
        assert [await each.publish(b"t", b"m") for each in opened] == list(range(3, 3 + connections))


async def test_neither_a_certificate_that_has_ended_is_taken(
    start_hub: StartHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hedwig.hub.hub._TLS_FILES_S", 0.05)
    authority, file = Authority(tmp_path / "ours"), tmp_path / "hub.pem"
    file.write_bytes(authority.sign("hub", days=2.0).read_bytes())
    hub = await start_hub(tls_port=0, tls_certificate=str(file))
    assert "is valid for 2.0 more days" in caplog.text
    assert 1.9 < metric(hub, "tls_days_left") < 2.0
    old = await shown(hub)
    file.write_bytes(authority.sign("hub", days=-0.5).read_bytes())
    await until(lambda: "has ended" in caplog.text, "the hub says so")
    assert await shown(hub) == old
    file.write_bytes(authority.sign("hub", days=90.0).read_bytes())
    await until(lambda: metric(hub, "tls_days_left") > 89.0, "the hub takes the one that is valid")
    assert await shown(hub) != old


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
async def checking(start_hub: StartHub, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub that looks up which client certificates are revoked."""
    monkeypatch.setattr("hedwig.hub.hub._TLS_FILES_S", 0.05)
    access = AccessOptions(client_ca=str(authority.certificate), client_crl=str(authority.revocations))
    return await start_hub(tls_port=0, tls_certificate=str(make_certificate(tmp_path)), access=access)


def client_of(hub: Hub, context: ssl.SSLContext) -> HedwigClient:
    address = HubAddress("127.0.0.1", hub.port, hub.tls_port)
    return HedwigClient(ClientOptions(hub=address, tls=context, answer_timeout_s=5.0))


async def test_a_revoked_certificate_opens_no_connection_and_keeps_none(checking: Hub, authority: Authority) -> None:
    ann, bob = authority.client("ann"), authority.client("bob")
    async with client_of(checking, ann) as first, client_of(checking, bob) as second:
        for client in (first, second):
            await client.publish("t", b"m")
        authority.revoke("ann")
        await until(lambda: first.counters.lost_connections == 1, "the hub closes the connection of ann")
        assert second.counters.lost_connections == 0
        with pytest.raises(CouldNotConnectError):
            await first.publish("t", b"m")
        await second.publish("t", b"m")
    authority.revoke()
    async with client_of(checking, ann) as client:
        await until_published(client)


async def until_published(client: HedwigClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await client.publish("t", b"m")
            except CouldNotConnectError:
                continue
            return


async def test_a_certificate_that_ends_ends_its_connection(checking: Hub, authority: Authority) -> None:
    brief = authority.client("ann", days=6.0 / 86_400)
    async with client_of(checking, brief) as client:
        await until_published(client)
        await until(lambda: client.counters.lost_connections == 1, "the hub closes the connection")


async def test_an_overdue_list_lets_no_certificate_pass(
    checking: Hub, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    authority.revoke(days=-1.0)
    await until(lambda: "the revocation list of CN=authority ours is overdue" in caplog.text, "the hub says so")
    for context, is_taken in ((authority.client("ann"), False), (trusting(), True)):
        async with client_of(checking, context) as client:
            if is_taken:
                await client.publish("t", b"m")
            else:
                with pytest.raises(CouldNotConnectError):
                    await client.publish("t", b"m")


async def test_lists_that_make_no_sense_are_refused(start_hub: StartHub, authority: Authority, tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "cannot"), (authority.certificate, "has no revocation list")):
        access = AccessOptions(client_ca=str(authority.certificate), client_crl=str(path))
        with pytest.raises(ConfigurationError, match=why):
            await start_hub(tls_port=0, tls_certificate=str(make_certificate(tmp_path)), access=access)
    with pytest.raises(ConfigurationError, match="client_crl is set, so client_ca must"):
        AccessOptions(client_crl="x")
