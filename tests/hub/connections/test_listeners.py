"""Prove that the listener by which a client comes says who it is, what TLS it speaks, and where it is sent on."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from hedwig.access import Rule
from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.errors import ConfigurationError, CouldNotConnectError, NotPermittedError, NotResponsibleForTopicError
from hedwig.hub.connections.listeners import Listeners
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.listener_options import ListenerOptions
from hedwig.hub.options.options import HubOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.model import SubscriberId, Topic
from hedwig.wire import Request, Unsubscribe
from tests.hub.conftest import StartHub
from tests.hub.support.tls_client import Authority, make_certificate, trusting

ANN = ListenerOptions(anonymous="ann")
_SHUT_S = 1.0
"""How long a client tries what cannot succeed."""
Start = Callable[..., Awaitable[Hub]]


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def start(start_hub: StartHub, ours: Authority, tmp_path: Path) -> Start:
    """Start a hub with named listeners, at which each user may publish to topics below its own name."""
    certificate = str(make_certificate(tmp_path))

    async def start(listeners: Mapping[str, ListenerOptions], **options: object) -> Hub:
        access = AccessOptions(mode="rules", anonymous="", client_ca=str(ours.certificate))
        given = {"tls_port": 0, "tls_certificate": certificate, "access": access, **options}
        hub = await start_hub(listeners=listeners, **given)
        rule = Rule.parse("allow * publish,create {user}/*")
        await RuleRecords(hub.metadata.named_records).replace("*", (rule,))
        assert hub.access is not None
        await hub.access.refresh()
        return hub

    return start


async def who(port: int, context: ssl.SSLContext | None = None, within_s: float = 30.0) -> str:
    """Return the user that a client at a port is."""
    address = HubAddress("127.0.0.1", port, port)
    async with HedwigClient(ClientOptions(hub=address, tls=context, answer_timeout_s=within_s)) as client:
        for user in ("ann", "bob"):
            try:
                await client.publish(f"{user}/1", b"m")
            except NotPermittedError:
                continue
            return user
        return "nobody"


async def is_shut(port: int, context: ssl.SSLContext | None = None) -> bool:
    """Say whether a client cannot even connect to a port, to which others connect."""
    try:
        await who(port, context, _SHUT_S)
    except CouldNotConnectError:
        return True
    return False


async def test_each_listener_has_an_anonymous_user_of_its_own(start: Start) -> None:
    hub = await start({"one": ANN, "two": ListenerOptions(anonymous="bob"), "none": ListenerOptions()})
    ports = hub.listeners.ports
    assert [await who(ports[name]) for name in ("one", "two", "none")] == ["ann", "bob", "nobody"]
    assert await who(hub.port) == "nobody"


async def test_listeners_differ_in_the_version_of_tls(start: Start) -> None:
    hub = await start({"old": ListenerOptions(tls="1.2"), "new": ListenerOptions(tls="1.3")})
    versions = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    served = {}
    for name, port in {**hub.listeners.ports, "own": hub.tls_port}.items():
        assert port is not None
        for version in versions:
            context = trusting()
            context.minimum_version = context.maximum_version = version
            served[name, version] = not await is_shut(port, context)
    assert [name for name, version in served if served[name, version] and version is versions[0]] == ["old", "own"]
    assert [name for name, version in served if served[name, version] and version is versions[1]] == ["new"]


async def test_old_ciphers_are_not_spoken(start: Start) -> None:
    hub = await start({"old": ListenerOptions(tls="1.2", anonymous="ann")})
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+AES256+SHA384:AES256-SHA:!AESGCM")  # CBC, and keys that a stolen certificate opens.
    assert await is_shut(hub.listeners.ports["old"], context)
    assert await who(hub.listeners.ports["old"], trusting()) == "ann"


async def test_a_listener_asks_for_certificates_or_needs_them(start: Start, ours: Authority, tmp_path: Path) -> None:
    hub = await start(
        {
            name or "none": ListenerOptions(tls="1.3", client_certificates=name, anonymous="ann")
            for name in ("", "optional", "required")
        }
    )
    ports, bob = hub.listeners.ports, ours.client("bob")
    assert [await who(ports[name], bob) for name in ("none", "optional", "required")] == ["ann", "bob", "bob"]
    assert await who(ports["optional"], trusting()) == "ann"
    stranger = Authority(tmp_path / "other").client("bob")
    for name, context in (("required", trusting()), ("required", stranger), ("optional", stranger)):
        assert await is_shut(ports[name], context)


async def test_clients_come_from_the_networks_of_their_listener(start: Start) -> None:
    here, there = ("10.0.0.0/8", "127.0.0.0/8"), ("10.0.0.0/8", "2001:db8::/32")
    hub = await start(
        {
            "here": ListenerOptions(anonymous="ann", networks=here),
            "there": ListenerOptions(anonymous="ann", networks=there),
            "secure": ListenerOptions(anonymous="ann", networks=there, tls="1.3"),
        }
    )
    ports = hub.listeners.ports
    assert await who(ports["here"]) == "ann"
    for name, context in (("there", None), ("secure", trusting())):
        assert await is_shut(ports[name], context)
    assert hub.listeners.failed_handshakes == 0


@pytest.mark.parametrize(
    ("address", "is_taken"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.1.2.3", False),
        ("fe80::1%eth0", True),
        ("2001:db8::1", False),
        ("?", False),
    ],
)
def test_networks_are_of_both_kinds(address: str, is_taken: bool) -> None:
    assert ListenerOptions(networks=("10.1.0.0/16", "fe80::/10")).takes(address) is is_taken
    assert ListenerOptions().takes(address)


async def test_a_hub_may_have_no_plain_port(start: Start) -> None:
    hub = await start({}, port=-1)
    assert hub.port == hub.tls_port
    assert hub.me.address == f"127.0.0.1:{hub.tls_port}:{hub.tls_port}"
    assert await who(hub.port, trusting()) == "nobody"
    assert await is_shut(hub.port)


def test_clients_of_a_named_listener_are_sent_to_listeners_of_that_name() -> None:
    others = {"a:1:-1": {"java": "a:7:-1"}, "b:1:2": {"apps": "b:9:9"}}
    sent = Listeners.redirect("java", NotResponsibleForTopicError("a:1:-1"), lambda: others)
    assert isinstance(sent, NotResponsibleForTopicError)
    assert sent.text == "a:7:-1"
    for hub in ("b:1:2", "c:1:-1"):
        refused = Listeners.redirect("java", NotResponsibleForTopicError(hub), lambda: others)
        assert "is not known to have a listener 'java'" in str(refused)
        assert refused.happened == "no"
    asked = Request(topic=Topic(b"t"), txn_id=1, action=Unsubscribe(SubscriberId(b"s")), tried=(b"a:7", b"b:9", b"c:1"))
    assert Listeners.with_hubs(asked, lambda: others).tried == (b"a:1", b"b:1", b"c:1")


@pytest.mark.parametrize(
    ("listener", "options", "why"),
    [
        ({"tls": "1.1"}, {}, "it must be 1.2, 1.3 or empty"),
        ({"client_certificates": "yes"}, {}, "it must be optional, required or empty"),
        ({"client_certificates": "required"}, {}, "client_certificates is set, so tls must be"),
        ({"anonymous": "ann lee"}, {}, "anonymous is 'ann lee'"),
        ({"networks": ("10.1.2.3/16",)}, {}, "write one as 10.1.0.0/16"),
        ({"port": 70_000}, {}, "must be from 0 to 65535"),
        ({"tls": "1.3"}, {}, "so tls_certificate must name a PEM file"),
        ({"tls": "1.3", "client_certificates": "optional"}, {"tls_certificate": "x"}, "access.client_ca must name"),
        ({"port": 4080}, {}, "port and listeners.apps are both 4080"),
        ({"host": "0.0.0.0"}, {}, "host is 0.0.0.0, so others can reach this hub"),
        ({"host": "0.0.0.0"}, {"access": AccessOptions(mode="open")}, "give its advertised_host a name"),
        ({}, {"port": -1}, "so tls_port must be set"),
    ],
)
def test_options_that_cannot_work_are_refused(
    listener: Mapping[str, object], options: Mapping[str, object], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why.replace(".", r"\.")):
        HubOptions(listeners={"apps": ListenerOptions(**listener)}, **options)  # type: ignore[arg-type]
