"""Prove that a signed token says who a client is, until it ends, and that no other token does."""

import base64
import json
import random
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hedwig.access import Principal, Rule
from hedwig.access.oauthbearer import step_with, token_in
from hedwig.client import ClientOptions, HedwigClient, HubAddress, TokenCredentials
from hedwig.errors import (
    ConfigurationError,
    CouldNotConnectError,
    InvalidArgumentError,
    NotAuthenticatedError,
    NotPermittedError,
    ServiceDownError,
)
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.options import HubOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.wire import PING_TOPIC, Authenticate, Request
from tests.faults.support.waiting import until
from tests.hub.conftest import StartHub
from tests.hub.support.issuer import Issuer
from tests.hub.support.spoiling import spoiled
from tests.hub.support.tls_client import make_certificate, trusting
from tests.hub.support.wire_client import WireClient


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path / "keys.json")


@pytest.fixture
async def hub(start_hub: StartHub, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub that takes tokens of the issuer. The group shop may publish below shop."""
    monkeypatch.setattr("hedwig.hub.hub.KEYS_LOOK_S", 0.05)
    monkeypatch.setattr("hedwig.hub.hub._TLS_FILES_S", 0.05)
    return await started(start_hub, tmp_path, str(issuer.file))


async def started(start_hub: StartHub, tmp_path: Path, keys: str) -> Hub:
    access = AccessOptions(
        mode="rules",
        anonymous="",
        mechanisms=("SCRAM-SHA-256", "OAUTHBEARER"),
        token_keys=keys,
        token_audience="hedwig",
        token_issuer="us",
    )
    hub = await start_hub(tls_port=0, tls_certificate=str(make_certificate(tmp_path)), access=access)
    rules = (Rule.parse("allow group:shop publish,create shop/*"), Rule.parse("allow group:shop subscribe shop/* as *"))
    await RuleRecords(hub.metadata.named_records).replace("group:shop", rules)
    assert hub.access is not None
    await hub.access.refresh()
    return hub


def client_of(
    hub: Hub, token: str | Callable[[], str], tls: ssl.SSLContext | None = None, within_s: float = 30.0
) -> HedwigClient:
    address = HubAddress("127.0.0.1", hub.port, hub.tls_port)
    credentials = TokenCredentials(token)
    return HedwigClient(ClientOptions(hub=address, tls=tls, credentials=credentials, answer_timeout_s=within_s))


async def test_a_token_says_who_a_client_is(hub: Hub, issuer: Issuer) -> None:
    async with client_of(hub, issuer.token(), trusting()) as client:
        async with client.subscribe("shop/1", "reader") as subscription:
            await client.publish("shop/1", b"m")
            assert (await anext(subscription)).body == b"m"
        with pytest.raises(NotPermittedError, match="by user:ann"):
            await client.publish("other/1", b"m")
    async with client_of(hub, issuer.token(groups="billing shop"), trusting()) as client:
        await client.publish("shop/1", b"m")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": time.time() - 3600}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": time.time() + 3600}, "not yet valid"),
        ({"aud": "others"}, "Audience"),
        ({"aud": None}, "aud"),
        ({"iss": "them"}, "issuer"),
        ({"sub": None}, "sub"),
        ({"sub": "ann lee"}, "is for nobody"),
        ({"groups": ["a b"]}, "is for nobody"),
        ({"groups": 7}, "is for nobody"),
    ],
)
async def test_a_token_that_does_not_count_is_refused(
    hub: Hub, issuer: Issuer, claims: dict[str, object], why: str
) -> None:
    async with client_of(hub, issuer.token(**claims), trusting()) as client:
        with pytest.raises(NotAuthenticatedError, match=why):
            await client.publish("shop/1", b"m")


async def test_nobody_signs_a_token_but_its_issuer(hub: Hub, issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    forged = [
        Issuer(tmp_path / "other" / "keys.json").token(),
        jwt.encode(claims, "", "none", {"kid": "one"}),
        # The hub knows the public key. Whoever takes that for a shared secret must not be believed.
        jwt.encode(claims, b"x" * 32, "HS256", {"kid": "one"}),
    ]
    for token in forged:
        async with client_of(hub, token, trusting()) as client:
            with pytest.raises(NotAuthenticatedError, match="the token does not count"):
                await client.publish("shop/1", b"m")


async def test_what_a_token_says_of_itself_need_not_be_text(hub: Hub, issuer: Issuer) -> None:
    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    assert hub.tls_port is not None
    async with await WireClient.connect(hub.tls_port, trusting()) as wire:
        headers: list[object] = [{"crit": ["\ud800"]}, {"crit": ["x" * 10_000]}, {"kid": ["one"]}, {"kid": {}}, [], 7]
        for header in headers:
            given = {"alg": "EdDSA", "kid": "one", **header} if isinstance(header, dict) else header
            step = step_with(f"{part(given)}.{part({'sub': 'ann'})}.AAAA")
            answer = await wire.request(PING_TOPIC, Authenticate("OAUTHBEARER", step))
            assert answer.authentication is None
            assert len(answer.text or "") < 500
    assert hub.requests.unanswered_bytes == 0


async def test_a_token_with_fewer_groups_ends_what_they_allowed(hub: Hub, issuer: Issuer) -> None:
    async with client_of(hub, issuer.token(), trusting()) as client, client.subscribe("shop/1", "reader"):
        [serving] = [channel for channel in hub.channels if channel.subscriptions]
        step = Authenticate("OAUTHBEARER", step_with(issuer.token(groups=[])))
        # As the client does when it renews its login.
        hub.requests.handle(serving, Request(topic=PING_TOPIC, txn_id=(1 << 63) - 1, action=step), 100)
        await until(lambda: not serving.subscriptions, "the hub ends the subscription")


async def test_a_token_is_shown_over_tls_only(hub: Hub, issuer: Issuer) -> None:
    async with client_of(hub, issuer.token()) as client:
        with pytest.raises(NotAuthenticatedError, match="do not log in with tokens at this port"):
            await client.publish("shop/1", b"m")


async def test_a_connection_goes_on_with_new_tokens(hub: Hub, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedwig.client.connections.channel._RENEW_AT", 0.02)
    given: list[str] = []

    def token() -> str:
        given.append(issuer.token(exp=time.time() + 60))
        return given[-1]

    async with client_of(hub, token, trusting()) as client, client.subscribe("shop/1", "reader") as subscription:
        await until(lambda: len(given) >= 6, "tokens are renewed, for both connections")
        await client.publish("shop/1", b"m")
        assert (await anext(subscription)).body == b"m"
        assert client.counters.lost_connections == 0


async def test_a_connection_ends_with_its_token(hub: Hub, issuer: Issuer) -> None:
    given = iter([issuer.token(exp=time.time() + 5)])

    def token() -> str:
        return next(given, "nothing")

    async with client_of(hub, token, trusting()) as client:
        await client.publish("shop/1", b"m")
        await until(lambda: client.counters.lost_connections == 1, "the hub closes the connection")
        with pytest.raises(NotAuthenticatedError):
            await client.publish("shop/1", b"m")


async def test_somebody_else_gets_a_connection_of_his_own(hub: Hub, issuer: Issuer) -> None:
    given = iter([issuer.token(exp=time.time() + 5)])

    def token() -> str:
        return next(given, issuer.token(sub="bob"))

    async with client_of(hub, token, trusting()) as client:
        await client.publish("shop/1", b"m")
        await until(lambda: client.counters.lost_connections == 1, "the connection of ann ends")
        with pytest.raises(NotPermittedError, match="by user:bob"):
            await client.publish("other/1", b"m")


async def test_new_keys_count_when_their_file_changes(
    hub: Hub, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.add("two")
    async with client_of(hub, issuer.token(), trusting()) as client:
        await client.publish("shop/1", b"m")
    issuer.file.write_text('{"keys": []}')
    await until(lambda: "the keys of tokens cannot be read" in caplog.text, "the hub says so")
    async with client_of(hub, issuer.token(), trusting()) as client:
        await client.publish("shop/1", b"m")


async def test_keys_are_read_from_a_url(
    start_hub: StartHub, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hedwig.hub.hub.KEYS_LOOK_S", 0.05)
    monkeypatch.setattr("hedwig.hub.access.tokens._UNKNOWN_REFRESH_S", 0.1)
    asked = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(text=issuer.published(), status=503 if asked == 1 else 200)

    application = web.Application()
    application.router.add_get("/keys", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        [address] = runner.addresses
        hub = await started(start_hub, tmp_path, f"http://127.0.0.1:{address[1]}/keys")
        for name in ("one", "two"):  # A key that the hub has not seen is looked for.
            if name not in issuer.keys:
                issuer.add(name)
            async with client_of(hub, issuer.token(), trusting()) as client:
                await client.publish("shop/1", b"m")
    finally:
        await runner.cleanup()


async def test_a_token_of_an_unknown_key_is_tried_again(hub: Hub, issuer: Issuer) -> None:
    issuer.keys["unknown"], issuer.name = Ed25519PrivateKey.generate(), "unknown"
    async with client_of(hub, issuer.token(), trusting(), within_s=0.5) as client:
        with pytest.raises(CouldNotConnectError, match="the key of the token is not known yet"):
            await client.publish("shop/1", b"m")


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="token_keys must name keys"):
        HubOptions(access=AccessOptions(mechanisms=("OAUTHBEARER",)))
    for mechanism in ("SCRAM-SHA-256-PLUS", "OAUTHBEARER"):
        needing_tls = AccessOptions(mechanisms=(mechanism,), token_keys="keys.json", token_audience="hedwig")
        with pytest.raises(ConfigurationError, match="which need TLS, and there is none"):
            HubOptions(access=needing_tls)
    with pytest.raises(ConfigurationError, match="must be a file or an https URL"):
        AccessOptions(token_keys="http://keys.example/keys")
    assert "secret" not in repr(TokenCredentials("secret"))


@pytest.mark.parametrize("step", [b"", b"n,,", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer \x01", b"\xff"])
def test_a_step_without_a_token_makes_no_sense(step: bytes) -> None:
    with pytest.raises(InvalidArgumentError):
        token_in(step)
    with pytest.raises(InvalidArgumentError):
        step_with("two\x01words")
    assert token_in(step_with("a.b-c_d")) == "a.b-c_d"
    assert token_in(b"n,a=ann,\x01host=h\x01port=1\x01auth=Bearer a.b\x01\x01") == "a.b"


@pytest.mark.parametrize("count", [2_000, pytest.param(1_000_000, marks=[pytest.mark.full, pytest.mark.timeout(3600)])])
async def test_tokens_at_random_are_for_nobody_else(hub: Hub, issuer: Issuer, count: int) -> None:
    """Of random changes to a true step, none is taken for another user, and none raises anything else."""
    assert hub.access is not None
    assert hub.access.logins is not None
    tokens = hub.access.logins.tokens
    assert tokens is not None
    source, true, taken = random.Random(26), step_with(issuer.token()), 0
    parts = [b".", b"..", b"=", b"n,,", b"\x01", b"auth=Bearer ", b"e30", b"eyJhbGciOiJub25lIn0", b"\xff", b"AAAA", b""]
    for _ in range(count):
        step = spoiled(source, true, parts)
        try:
            principal, _ = tokens.principal(token_in(step))
        except (InvalidArgumentError, NotAuthenticatedError, ServiceDownError):
            continue
        assert principal == Principal("ann", frozenset({"shop"})), step
        taken += 1
    assert taken > count / 20, "some steps are true"
