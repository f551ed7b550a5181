"""Prove that a client is who it says only with a password, and that nobody learns more from a failed login."""

import asyncio
import json
import math
import random
import ssl
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from scramp import ScramClient

from hedwig.access import Rule
from hedwig.access.scram import BINDING, ServerExchange, WrongPasswordError, make_verifier, pretended
from hedwig.access.users import User, Verifier
from hedwig.client import ClientOptions, HedwigClient, HubAddress, PasswordCredentials
from hedwig.errors import (
    ConfigurationError,
    CouldNotConnectError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NotAuthenticatedError,
    NotPermittedError,
    SubscriptionClosedError,
)
from hedwig.hub.access.logins import Logins
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords
from hedwig.status import StatusCode
from hedwig.wire import PING_TOPIC, Authenticate, RefusalKind
from tests.faults.support.waiting import until
from tests.hub.conftest import StartHub
from tests.hub.support.spoiling import spoiled
from tests.hub.support.tls_client import Authority, trusting
from tests.hub.support.wire_client import WireClient

ANN = "correct horse"
Start = Callable[..., Awaitable[Hub]]
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-256-PLUS")


@pytest.fixture
def start(start_hub: StartHub, tmp_path: Path) -> Start:
    """Start a hub with the user ann in the group shop, which may all below shop."""

    async def start(**options: object) -> Hub:
        given = {"mode": "rules", "anonymous": "", "mechanisms": SCRAM, "refresh_s": 0.05, **options}
        certificate = Authority(tmp_path / "authority").sign("hub")
        access = AccessOptions(**given)  # type: ignore[arg-type]
        hub = await start_hub(tls_port=0, tls_certificate=str(certificate), access=access)
        await users_of(hub).replace("user:ann", User(frozenset({"shop"}), (make_verifier(ANN),)))
        texts = ("allow group:shop publish,create shop/*", "allow group:shop subscribe shop/* as *")
        await RuleRecords(hub.metadata.named_records).replace("group:shop", tuple(map(Rule.parse, texts)))
        await refresh(hub)
        return hub

    return start


def users_of(hub: Hub) -> UserRecords:
    return UserRecords(hub.metadata.named_records)


async def refresh(hub: Hub) -> None:
    assert hub.access is not None
    await hub.access.refresh()


def client_of(
    hub: Hub, user: str = "ann", password: str | Callable[[], str] = ANN, tls: ssl.SSLContext | None = None
) -> HedwigClient:
    credentials = PasswordCredentials(user, password)
    address = HubAddress("127.0.0.1", hub.port, hub.tls_port)
    return HedwigClient(ClientOptions(hub=address, tls=tls, credentials=credentials))


async def why_not(client: HedwigClient) -> str | None:
    """Return why a client is refused; None if it is served."""
    async with client:
        try:
            await client.publish("shop/1", b"m")
        except NotAuthenticatedError as exc:
            return str(exc)
        return None


# ----------------------------------------------------------------------------------------------------- who one is


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_a_password_says_who_a_client_is(start: Start, tls: bool) -> None:
    hub = await start()
    async with client_of(hub, tls=trusting() if tls else None) as client:
        async with client.subscribe("shop/1", "reader") as subscription:
            await client.publish("shop/1", b"m")
            assert (await anext(subscription)).body == b"m"
        with pytest.raises(NotPermittedError, match="by user:ann"):
            await client.publish("other/1", b"m")
    async with HedwigClient(f"127.0.0.1:{hub.port}") as stranger:
        with pytest.raises(NotPermittedError, match="by nobody"):
            await stranger.publish("shop/1", b"m")


async def test_a_failed_login_does_not_tell_whether_there_is_such_a_user(start: Start) -> None:
    hub = await start()
    said = {await why_not(client_of(hub, user, "battery staple")) for user in ("ann", "bob")}
    assert said == {
        "the hub answers MALFORMED_REQUEST: not authenticated: there is no such user, or the password is another"
    }
    assert hub.access is not None
    assert hub.access.logins is not None
    assert (hub.access.logins.done, hub.access.logins.failed) == (0, 2)
    # All hubs make up the same of a user that does not exist, and something else of another one.
    assert pretended("bob", b"pepper") == pretended("bob", b"pepper") != pretended("eve", b"pepper")
    true, made_up = make_verifier(ANN), pretended("bob", b"pepper")
    assert (len(true.salt), true.iterations) == (len(made_up.salt), made_up.iterations)


async def test_both_passwords_count_until_the_older_ends(start: Start) -> None:
    hub = await start()
    newest = make_verifier(ANN)
    older = make_verifier("battery staple", newest)
    for until_s, served in ((time.time() + 600, [True, True]), (time.time() - 1, [True, False])):
        ends = Verifier(older.salt, older.iterations, older.stored_key, older.server_key, until_s)
        await users_of(hub).replace("user:ann", User(frozenset({"shop"}), (newest, ends)))
        await refresh(hub)
        refused = [await why_not(client_of(hub, "ann", password)) for password in (ANN, "battery staple")]
        assert [each is None for each in refused] == served


async def test_a_password_may_change_while_a_client_runs(start: Start, tmp_path: Path) -> None:
    hub, file = await start(), tmp_path / "password"
    file.write_text(f"{ANN}\n")
    address = HubAddress("127.0.0.1", hub.port)
    credentials = PasswordCredentials.from_file("ann", file)
    async with HedwigClient(ClientOptions(hub=address, credentials=credentials)) as client:
        await client.publish("shop/1", b"m")
        file.write_text("battery staple")
        await users_of(hub).replace("user:ann", User(frozenset({"shop"}), (make_verifier("battery staple"),)))
        await refresh(hub)
        for channel in list(hub.channels):
            channel.close()
        await until(lambda: client.counters.lost_connections == 1, "the client notices that")
        await client.publish("shop/1", b"m")


async def test_who_is_deleted_is_out_and_who_is_in_another_group_may_something_else(start: Start) -> None:
    hub = await start()
    async with client_of(hub) as client, client.subscribe("shop/1", "reader") as subscription:
        await client.publish("shop/1", b"m")
        await users_of(hub).change("user:ann", lambda user: User(frozenset({"other"}), user.verifiers))
        await until(lambda: {*groups_of(hub)} == {frozenset({"other"})}, "the hub knows the other group")
        with pytest.raises(NotPermittedError):
            await client.publish("shop/1", b"m")
        await users_of(hub).replace("user:ann", User())
        await until(lambda: not hub.channels, "the hub closes all connections of ann")
        await until(lambda: client.counters.lost_connections == 2, "the client has noticed both")
        with pytest.raises(NotAuthenticatedError):
            await client.publish("shop/1", b"m")
        assert (await anext(subscription)).body == b"m"
        with pytest.raises(SubscriptionClosedError):
            await anext(subscription)


async def test_a_connection_stays_that_of_its_user(start: Start) -> None:
    hub = await start()
    await users_of(hub).replace("user:bob", User(verifiers=(make_verifier(ANN),)))
    await refresh(hub)
    async with await WireClient.connect(hub.port) as wire:
        assert await login(wire, "ann") is None
        assert await login(wire, "ann") is None, "it may say so again"
        assert "this connection is that of user:ann" in str(await login(wire, "bob"))


def groups_of(hub: Hub) -> list[frozenset[str]]:
    """Return the groups of the clients of a hub."""
    return [channel.caller.principal.groups for channel in hub.channels if channel.caller is not None]


async def test_a_login_that_was_begun_long_ago_is_begun_anew(start: Start) -> None:
    hub = await start()
    async with await WireClient.connect(hub.port) as wire:
        client = ScramClient(["SCRAM-SHA-256"], "ann", ANN)
        _, first = await step(wire, "SCRAM-SHA-256", client.get_client_first().encode())
        client.set_server_first(first.decode())
        [channel] = hub.channels
        assert channel.exchange is not None
        channel.exchange.latest = -math.inf
        refused, _ = await step(wire, "SCRAM-SHA-256", client.get_client_final().encode())
        assert "took too long" in str(refused)
        assert await login(wire, "ann") is None


async def test_a_hub_that_has_not_read_the_users_refuses_nobody_for_good(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing_new(_: Logins) -> bool:
        return False

    monkeypatch.setattr(Logins, "refresh", nothing_new)
    hub = await start()
    options = ClientOptions(
        hub=HubAddress("127.0.0.1", hub.port), credentials=PasswordCredentials("ann", ANN), answer_timeout_s=0.3
    )
    async with HedwigClient(options) as client:
        with pytest.raises(CouldNotConnectError, match="has not read the users") as raised:
            await client.publish("shop/1", b"m")
        assert not isinstance(raised.value, NotAuthenticatedError)


async def test_rules_count_though_the_users_cannot_be_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = await start()

    async def away(_: UserRecords) -> None:
        raise MetadataUnavailableError("away")

    async with client_of(hub) as client, client.subscribe("shop/1", "reader") as subscription:
        monkeypatch.setattr(UserRecords, "read", away)
        await RuleRecords(hub.metadata.named_records).replace("group:shop", ())
        with pytest.raises(SubscriptionClosedError):
            await anext(subscription)


async def step(wire: WireClient, mechanism: str, data: bytes) -> tuple[str | None, bytes]:
    """Take a step; return why it was refused, None if not, and the answer."""
    answer = await wire.request(PING_TOPIC, Authenticate(mechanism, data))
    if answer.authentication is None:
        assert answer.refusal is RefusalKind.NOT_AUTHENTICATED or answer.status is StatusCode.SERVICE_DOWN
        return answer.text, b""
    return None, answer.authentication.data


async def login(wire: WireClient, user: str, password: str = ANN) -> str | None:
    """Log in without TLS; return why that was refused, None if not."""
    client = ScramClient(["SCRAM-SHA-256"], user, password)
    refused, first = await step(wire, "SCRAM-SHA-256", client.get_client_first().encode())
    if refused is not None:
        return refused
    client.set_server_first(first.decode())
    refused, _ = await step(wire, "SCRAM-SHA-256", client.get_client_final().encode())
    return refused


# ------------------------------------------------------------------------------------------------------- strangers


async def test_who_must_log_in_has_little_time_and_small_frames(start: Start) -> None:
    hub = await start(login_s=3.0)
    async with await WireClient.connect(hub.port) as silent, await WireClient.connect(hub.port) as known:
        assert await login(known, "ann") is None
        await until(lambda: len(hub.channels) == 1, "the hub closes the connection of the silent one")
        await silent.closed_by_hub()
        assert await login(known, "ann") is None
    async with client_of(hub) as client:
        await client.publish("shop/1", b"m" * 500_000)


async def test_nobody_must_log_in_where_the_rules_are_only_tried(start: Start) -> None:
    hub = await start(mode="audit")
    assert hub.access is not None
    assert hub.access.logins is not None
    async with HedwigClient(f"127.0.0.1:{hub.port}") as stranger, client_of(hub) as ann:
        for client in (stranger, ann):
            await client.publish("shop/1", b"m" * 100_000)
        assert len(hub.access.logins.newcomers) == 0


async def test_large_frames_of_strangers_end_their_connection(start: Start) -> None:
    hub = await start()
    async with await WireClient.connect(hub.port) as wire:
        wire.send(PING_TOPIC, Authenticate("", b"x" * 30_000))
        await wire.closed_by_hub()


async def test_too_many_strangers_displace_the_oldest(start: Start) -> None:
    hub = await start(newcomers_max=2)
    wires = []
    for _ in range(3):
        wires.append(await WireClient.connect(hub.port))
        await until(lambda: len(hub.channels) == min(len(wires), 2), "the hub knows them")
    try:
        await wires[0].closed_by_hub()
        assert [await login(wire, "ann") for wire in wires[1:]] == [None, None]
    finally:
        for wire in wires:
            await wire.close()


async def test_logins_from_an_address_wait_after_many_failures(start: Start) -> None:
    hub = await start()
    said = ""
    async with await WireClient.connect(hub.port) as wire:
        for _ in range(20):
            said = str(await login(wire, "ann", "battery staple"))
            if "too many logins from 127.0.0.1 have failed" in said:
                break
        else:
            pytest.fail(said)
    # A client that knows the password tries until it may.
    assert await why_not(client_of(hub)) is None


# ---------------------------------------------------------------------------------------------------- mechanisms


async def test_only_what_a_listener_offers_is_taken(start: Start) -> None:
    hub = await start(mechanisms=("SCRAM-SHA-256-PLUS",))
    assert await why_not(client_of(hub, tls=trusting())) is None
    assert await why_not(client_of(hub)) == "clients of this hub do not log in with passwords at this port"
    async with await WireClient.connect(hub.port) as wire:
        assert "takes nobody at his word, and not SCRAM-SHA-256" in str(await login(wire, "ann"))


async def test_a_hub_without_logins_is_not_taken_for_one_that_knows_the_client(start: Start) -> None:
    hub = await start(mechanisms=(), anonymous="local")
    said = await why_not(client_of(hub))
    assert said is not None
    assert "clients of this hub do not log in" in said


@pytest.fixture(params=["ed25519", "ed448", "rsa:2048"])
def certificate(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A certificate of a hub, with its key."""
    key, certificate, both = (tmp_path / name for name in ("key.pem", "certificate.pem", "both.pem"))
    made = ["openssl", "req", "-x509", "-newkey", request.param, "-nodes", "-days", "2", "-subj", "/CN=hub"]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


async def test_logins_are_bound_to_a_certificate_of_any_algorithm(start_hub: StartHub, certificate: Path) -> None:
    access = AccessOptions(mode="rules", anonymous="", mechanisms=("SCRAM-SHA-256-PLUS",))
    hub = await start_hub(tls_port=0, tls_certificate=str(certificate), access=access)
    await users_of(hub).replace("user:ann", User(frozenset(), (make_verifier(ANN),)))
    await refresh(hub)
    async with client_of(hub, tls=trusting()) as client:
        with pytest.raises(NotPermittedError, match="by user:ann"):
            await client.publish("shop/1", b"m")


async def test_a_login_over_tls_cannot_be_passed_on_without(start: Start) -> None:
    """Who hides from a client that a hub binds logins gets what no hub takes, with TLS or without."""
    hub = await start()
    for tls in (None, trusting()):
        port = hub.port if tls is None else hub.tls_port
        assert port is not None
        async with await WireClient.connect(port, tls) as between:
            client = ScramClient(["SCRAM-SHA-256"], "ann", ANN, channel_binding=(BINDING, b"another certificate"))
            refused, _ = await step(between, "SCRAM-SHA-256", client.get_client_first().encode())
            assert refused is not None
            assert "channel binding" in refused


def exchange(user: User, binding: bytes | None) -> ServerExchange:
    return ServerExchange("SCRAM-SHA-256", lambda _: user.verifiers, binding)


def test_a_login_is_bound_to_the_connection() -> None:
    """Somebody between client and hub, with a certificate of his own, cannot pass the login on."""
    user = User(verifiers=(make_verifier(ANN),))
    for seen, is_taken in ((b"the certificate of the hub", True), (b"another certificate", False)):
        hub = ServerExchange("SCRAM-SHA-256-PLUS", lambda _: user.verifiers, b"the certificate of the hub")
        client = ScramClient(list(SCRAM), "ann", ANN, channel_binding=(BINDING, seen))
        client.set_server_first(hub.first(client.get_client_first().encode()).decode())
        last = client.get_client_final().encode()
        if is_taken:
            client.set_server_final(hub.last(last).decode())
        else:
            with pytest.raises((InvalidArgumentError, WrongPasswordError)):
                hub.last(last)
    # Neither can he hide from the client that the hub would bind: the client says that it could.
    hub = exchange(user, b"the certificate of the hub")
    client = ScramClient(["SCRAM-SHA-256"], "ann", ANN, channel_binding=(BINDING, b"another certificate"))
    with pytest.raises(InvalidArgumentError):
        hub.first(client.get_client_first().encode())


def test_a_password_that_cannot_be_one_is_refused() -> None:
    for password in ("short", "with\x00control characters"):
        with pytest.raises(InvalidArgumentError, match="password"):
            make_verifier(password)
    with pytest.raises(ConfigurationError, match="mechanisms names 'PLAIN'"):
        AccessOptions(mechanisms=("PLAIN",))
    assert "correct" not in repr(PasswordCredentials("ann", ANN))
    assert repr(make_verifier(ANN).stored_key) not in repr(make_verifier(ANN))


async def test_a_client_without_its_password_tries_again(start: Start, tmp_path: Path) -> None:
    hub = await start()
    credentials = PasswordCredentials.from_file("ann", tmp_path / "none")
    options = ClientOptions(hub=HubAddress("127.0.0.1", hub.port), credentials=credentials, answer_timeout_s=0.3)
    async with HedwigClient(options) as client:
        with pytest.raises(CouldNotConnectError, match="cannot read the credentials in"):
            await client.publish("shop/1", b"m")


@pytest.mark.parametrize(
    ("give", "why"), [(lambda: 1 / 0, "ZeroDivisionError"), (lambda: None, "it returned NoneType, and not str")]
)
async def test_a_function_that_gives_no_password_is_asked_again(
    start: Start, give: Callable[[], str], why: str
) -> None:
    hub = await start()
    options = ClientOptions(
        hub=HubAddress("127.0.0.1", hub.port), credentials=PasswordCredentials("ann", give), answer_timeout_s=0.3
    )
    async with HedwigClient(options) as client:
        with pytest.raises(CouldNotConnectError, match=why):
            await client.publish("shop/1", b"m")


async def test_no_log_keeps_the_names_of_strangers(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="hedwig.hub")
    hub = await start(audit_file=str(tmp_path / "audit"))
    async with await WireClient.connect(hub.port) as wire:
        for name in ("ann", "x" * 10_000):
            await login(wire, name, "battery staple")
    await hub.close()
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    assert [line["who"] for line in lines if line.get("action") == "login"] == ["user:ann", "nobody"]
    assert "xxx" not in caplog.text
    assert "battery" not in caplog.text


# ---------------------------------------------------------------------------------------------------------- fuzz


@pytest.mark.parametrize("count", [5_000, pytest.param(1_000_000, marks=[pytest.mark.full, pytest.mark.timeout(1800)])])
def test_steps_at_random_are_refused(count: int) -> None:
    """Of random changes to true steps, no step is taken, and none raises anything else."""
    source = random.Random(26)
    user = User(verifiers=(Verifier(b"s" * 16, 4096, b"k" * 32, b"k" * 32),))
    parts = [b"n", b"y", b"p=tls-unique", b",", b"a=", b"n=ann", b"r=", b"c=biws", b"m=", b"=", b"\xff", b"p=AAAA", b""]
    taken = 0
    for _ in range(count):
        hub = exchange(user, source.choice((None, b"binding")))
        try:
            true = ScramClient(["SCRAM-SHA-256"], "ann", ANN).get_client_first().encode()
            answer = hub.first(spoiled(source, true, parts))
            taken += 1
            nonce = answer.split(b",")[0]
            hub.last(spoiled(source, b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=", parts))
        except (InvalidArgumentError, WrongPasswordError):
            continue
        pytest.fail(f"a login succeeded: seed 26, {answer!r}")
    assert taken > count / 20, "some first steps are true enough to be answered"


async def test_many_log_in_at_once(start: Start) -> None:
    hub = await start()
    clients = [client_of(hub) for _ in range(50)]
    try:
        await asyncio.gather(*(client.publish("shop/1", b"m") for client in clients))
    finally:
        for client in clients:
            await client.close()
    assert hub.access is not None
    assert hub.access.logins is not None
    assert hub.access.logins.done == 50
