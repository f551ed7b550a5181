"""Prove that a client certificate says who a client is, and that one of an unknown authority opens no connection."""

import ssl
from pathlib import Path

import pytest

from hedwig.access import Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError, CouldNotConnectError, NotPermittedError
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.options import HubOptions
from hedwig.metadata.access.rule_records import RuleRecords
from tests.hub.conftest import StartHub
from tests.hub.support.tls_client import Authority, make_certificate, trusting


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
async def hub(start_hub: StartHub, ours: Authority, tmp_path: Path) -> Hub:
    """A hub that knows the authority `ours`, and the rules of the tests."""
    access = AccessOptions(
        mode="rules",
        anonymous="nobody",
        refresh_s=0.05,
        client_ca=str(ours.certificate),
        certificate_names=("URI:spiffe://acme/(\\w+)/(.+) => $2 in $1", "CN:(.+) => $1"),
    )
    certificate = str(make_certificate(tmp_path))
    made = await start_hub(tls_port=0, tls_certificate=certificate, access=access)
    records = RuleRecords(made.metadata.named_records)
    for text in (
        "allow user:ann publish,create ann/*",
        "allow group:shop publish,create shop/*",
        "allow user:nobody publish,create open/*",
    ):
        rule = Rule.parse(text)
        await records.replace(rule.who, (rule,))
    assert made.access is not None
    await made.access.refresh()
    return made


def client_of(hub: Hub, context: ssl.SSLContext) -> HedwigClient:
    address = HubAddress("127.0.0.1", hub.port, hub.tls_port)
    return HedwigClient(ClientOptions(hub=address, tls=context, answer_timeout_s=5.0))


async def allowed(client: HedwigClient) -> list[str]:
    """Return the topics of the rules to which a client may publish."""
    found = []
    for name in ("ann", "shop", "open"):
        try:
            await client.publish(f"{name}/1", b"m")
        except NotPermittedError:
            continue
        found.append(name)
    return found


async def test_a_certificate_says_who_a_client_is(hub: Hub, ours: Authority) -> None:
    for context, expected in (
        (ours.client("ann"), ["ann"]),
        (ours.client("orders", "spiffe://acme/shop/orders"), ["shop"]),
        (ours.client("a name with spaces"), []),
        (trusting(), ["open"]),
    ):
        async with client_of(hub, context) as client:
            assert await allowed(client) == expected
    async with HedwigClient(f"127.0.0.1:{hub.port}") as client:
        assert await allowed(client) == ["open"]


async def test_subscriptions_are_those_of_the_certificate_too(hub: Hub, ours: Authority) -> None:
    records = RuleRecords(hub.metadata.named_records)
    rule = Rule.parse("allow * subscribe,create {user}/* as {user}")
    await records.replace("*", (rule,))
    assert hub.access is not None
    await hub.access.refresh()
    async with client_of(hub, ours.client("ann")) as client:
        async with client.subscribe("ann/1", "ann") as subscription:
            await client.publish("ann/1", b"m")
            assert (await anext(subscription)).body == b"m"
        with pytest.raises(NotPermittedError, match="as 'bob' by user:ann"):
            await client.subscribe("ann/1", "bob")
    async with HedwigClient(f"127.0.0.1:{hub.port}") as stranger:
        with pytest.raises(NotPermittedError, match="by user:nobody"):
            await stranger.subscribe("ann/1", "ann", force_attach=True)


async def test_a_certificate_of_another_authority_opens_no_connection(hub: Hub, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other").client("ann")
    async with client_of(hub, other) as client:
        with pytest.raises(CouldNotConnectError):
            await client.publish("ann/1", b"m")


async def test_options_that_cannot_work_are_refused(start_hub: StartHub, ours: Authority, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"access\.client_ca is set, so tls_port must be"):
        HubOptions(access=AccessOptions(client_ca=str(ours.certificate)))
    certificate = str(make_certificate(tmp_path))
    with pytest.raises(ConfigurationError, match=r"authorities in access\.client_ca"):
        await start_hub(tls_port=0, tls_certificate=certificate, access=AccessOptions(client_ca=str(tmp_path / "none")))
    with pytest.raises(ConfigurationError, match="certificate_names: a rule for certificates is"):
        AccessOptions(certificate_names=("ann",))
