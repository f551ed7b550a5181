"""Prove that the client speaks TLS with a hub, and refuses every server that its settings do not accept."""

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.client import BlockingClient, ClientOptions, HedwigClient, HubAddress
from hedwig.errors import CouldNotConnectError
from hedwig.model import SubscriberId, Topic
from tests.client.support.tls import TlsHub, make_certificate

ANN = SubscriberId(b"ann")
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsHub]:
    with TlsHub(tmp_path_factory.mktemp("tls")) as started:
        assert isinstance(started, TlsHub)
        yield started


def trusting(certificate: Path, *, check_hostname: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = check_hostname
    return context


@pytest.mark.parametrize("check_hostname", [False, True])
@pytest.mark.parametrize("share_channels", [False, True])
async def test_everything_goes_over_tls(hub: TlsHub, topic: Topic, check_hostname: bool, share_channels: bool) -> None:
    tls = trusting(hub.certificate, check_hostname=check_hostname)
    # Nothing listens on the port without TLS, so a connection to it would fail.
    address = HubAddress("127.0.0.1", 1, HubAddress.parse(hub.tls_address).ssl_port)
    options = ClientOptions(hub=address, tls=tls, share_channels=share_channels)
    async with HedwigClient(options) as client, asyncio.timeout(PATIENCE_S):
        subscription = await client.subscribe(topic, ANN)
        sent = [bytes([number]) * 50_000 for number in range(60)]
        assert [seq_id.local async for seq_id in client.publish_many(topic, sent)] == list(range(1, 61))
        assert [(await anext(subscription)).body for _ in range(60)] == sent
        assert await subscription.close()
        await client.unsubscribe(topic, ANN)


def test_the_blocking_client_too(hub: TlsHub, topic: Topic) -> None:
    options = ClientOptions(hub=HubAddress.parse(hub.tls_address), tls=trusting(hub.certificate))
    with BlockingClient(options) as client, client.subscribe(topic, ANN) as subscription:
        client.publish(topic, b"body")
        message = subscription.receive(PATIENCE_S)
        assert message is not None
        assert message.body == b"body"


async def test_a_hub_that_nobody_vouches_for_is_refused(hub: TlsHub, topic: Topic, tmp_path: Path) -> None:
    stranger, _ = make_certificate(tmp_path, "stranger", "IP:127.0.0.1")
    for tls in (ssl.create_default_context(), trusting(stranger)):
        async with HedwigClient(ClientOptions(hub=HubAddress.parse(hub.tls_address), tls=tls)) as client:
            with pytest.raises(CouldNotConnectError, match="certificate verify failed"):
                await client.publish(topic, b"body")


async def test_a_certificate_must_name_the_host_if_that_is_asked_for(hub: TlsHub, topic: Topic) -> None:
    address = HubAddress("localhost", 1, HubAddress.parse(hub.tls_address).ssl_port)
    for check_hostname, is_refused in ((True, True), (False, False)):
        tls = trusting(hub.certificate, check_hostname=check_hostname)
        async with HedwigClient(ClientOptions(hub=address, tls=tls)) as client:
            if is_refused:
                with pytest.raises(CouldNotConnectError, match="localhost"):
                    await client.publish(topic, b"body")
            else:
                await client.publish(topic, b"body")


async def test_a_hub_without_tls_is_refused(hub: TlsHub, topic: Topic) -> None:
    plain = HubAddress.parse(hub.address)
    tls = trusting(hub.certificate)
    for address in (plain, HubAddress(plain.host, plain.port, plain.port)):
        async with HedwigClient(ClientOptions(hub=address, tls=tls, answer_timeout_s=1)) as client:
            with pytest.raises(CouldNotConnectError, match="TLS port" if address is plain else "cannot connect"):
                await client.publish(topic, b"body")
