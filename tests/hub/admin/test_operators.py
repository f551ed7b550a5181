"""Prove that the admin endpoint asks who somebody is, and lets them do what the rules say and nothing else."""

import asyncio
import base64
import json
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hedwig.access import Action, Rule
from hedwig.access.scram import make_verifier, stored_key_of
from hedwig.access.users import User
from hedwig.client import HedwigClient
from hedwig.errors import ConfigurationError
from hedwig.hub.access import logins
from hedwig.hub.admin.endpoint import AdminEndpoint
from hedwig.hub.admin.http.route import Route, Scope
from hedwig.hub.admin.http.token_file import TokenFile
from hedwig.hub.hub import Hub
from hedwig.hub.options.access_options import AccessOptions
from hedwig.hub.options.options import HubOptions
from hedwig.metadata.access.rule_records import RuleRecords
from hedwig.metadata.access.user_records import UserRecords
from hedwig.private_files import ADMIN_TOKEN
from tests.hub.conftest import StartHub
from tests.hub.support.admin_client import AdminAnswer, AdminClient
from tests.hub.support.issuer import Issuer
from tests.hub.support.tls_client import Authority

PASSWORD = "correct horse"
RULES: dict[str, Any] = {"mode": "rules", "mechanisms": ("SCRAM-SHA-256",), "refresh_s": 0.05}


@dataclass
class Asked:
    """A hub, and its admin endpoint."""

    hub: Hub
    admin: AdminClient

    async def ask(self, method: str, path: str, **headers: str) -> AdminAnswer:
        return await asyncio.to_thread(self.admin.ask, method, path, headers)

    async def status(self, method: str, path: str, **headers: str) -> int:
        return (await self.ask(method, path, **headers)).status

    async def allow(self, *texts: str) -> None:
        """Make these the rules for the user ann."""
        records = RuleRecords(self.hub.metadata.named_records)
        await records.change("user:ann", lambda _: tuple(map(Rule.parse, texts)))
        assert self.hub.access is not None
        await self.hub.access.refresh()


@pytest.fixture
def start(start_hub: StartHub) -> Any:
    """Start a hub with an admin endpoint, and options of access; if it asks rules, with the user ann."""

    async def started(access: Mapping[str, Any] | None = None, **options: Any) -> Asked:
        hub = await start_hub(admin_port=0, access=AccessOptions(**(access or {})), **options)
        if hub.access is not None and hub.access.logins is not None:
            records = UserRecords(hub.metadata.named_records)
            await records.replace("user:ann", User(frozenset(), (make_verifier(PASSWORD),)))
            await hub.access.refresh()
        return Asked(hub, AdminClient(f"127.0.0.1:{hub.admin_port}"))

    return started


def token_of(hub: Hub) -> Mapping[str, str]:
    """Return the header with the token that the hub has made."""
    return {"Authorization": f"Bearer {(hub.options.data_directory / ADMIN_TOKEN).read_text().strip()}"}


def password(name: str = "ann", text: str = PASSWORD) -> Mapping[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{text}'.encode()).decode()}"}


# ------------------------------------------------------------------------------------------------------ the token


async def test_a_hub_that_is_told_nothing_asks_for_the_token_that_it_has_made(start: Any) -> None:
    asked = await start()
    path = asked.hub.options.data_directory / ADMIN_TOKEN
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for method, url in (("GET", "/metrics"), ("GET", "/topics"), ("POST", "/read-only?state=on")):
        refused = await asked.ask(method, url)
        assert (refused.status, refused.ways) == (401, 'Bearer realm="hedwig"')
        assert "asks who you are" in refused.json["error"]
        assert path.read_text().strip() not in refused.text
        assert await asked.status(method, url, **token_of(asked.hub)) == 200
    for wrong in ("Bearer x", "Bearer", "Basic eDp5", f"Digest {path.read_text().strip()}", "bearer " + "x" * 5000):
        assert await asked.status("GET", "/metrics", Authorization=wrong) == 401


async def test_probes_need_no_token_and_learn_little(start: Any) -> None:
    asked = await start()
    assert (await asked.ask("GET", "/health")).json == {"status": "ok"}
    assert (await asked.ask("GET", "/ready")).json == {"ready": True}
    full = (await asked.ask("GET", "/health", **token_of(asked.hub))).json
    assert full["address"] == asked.hub.me.address
    await asked.ask("POST", "/read-only?state=on", **token_of(asked.hub))
    answer = await asked.ask("GET", "/ready")
    assert (answer.status, answer.json) == (503, {"ready": False})


async def test_the_same_token_counts_after_a_restart_and_another_one_once_the_file_has_it(
    start: Any, tmp_path: Path
) -> None:
    first = await start()
    shown = token_of(first.hub)
    await first.hub.close()
    asked = await start()
    assert await asked.status("GET", "/load", **shown) == 200
    path = asked.hub.options.data_directory / ADMIN_TOKEN
    path.write_text("another token that is long enough\n".replace(" ", "-"))
    assert await asked.status("GET", "/load", **shown) == 401
    assert await asked.status("GET", "/load", **token_of(asked.hub)) == 200
    for bad in ("short\n", ""):
        path.write_text(bad)
        assert await asked.status("GET", "/load", Authorization=f"Bearer {bad.strip()}") == 401
    path.unlink()
    assert await asked.status("GET", "/load", **shown) == 401


async def test_a_named_file_must_have_a_token(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(ConfigurationError, match=r"cannot use the token of the admin endpoint in .*No such file"):
        await start(admin_token_file=str(path))
    path.write_text("too short\n")
    with pytest.raises(ConfigurationError, match="16 letters and digits or more"):
        await start(admin_token_file=str(path))
    path.write_text("0123456789abcdef\nwhat follows does not count\n")
    asked = await start({"mode": "open"}, admin_token_file=str(path))
    assert await asked.status("GET", "/load") == 401
    assert await asked.status("GET", "/load", Authorization="Bearer 0123456789abcdef") == 200
    assert not (asked.hub.options.data_directory / ADMIN_TOKEN).exists()


def test_two_that_make_a_token_have_the_same(tmp_path: Path) -> None:
    one, other = (TokenFile(tmp_path / "data" / "token", makes=True) for _ in range(2))
    text = (tmp_path / "data" / "token").read_text().strip()
    assert one.is_shown(text)
    assert other.is_shown(text)
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["token"]


async def test_who_has_said_open_is_asked_nothing(start: Any) -> None:
    asked = await start({"mode": "open"})
    assert await asked.status("POST", "/read-only?state=on") == 200
    assert await asked.status("GET", "/metrics", Authorization="Bearer anything") == 200
    assert not (asked.hub.options.data_directory / ADMIN_TOKEN).exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "Set admin_tls to on, or to off if"),
        ({"admin_tls": "off"}, "with access.mode=open it asks nobody"),
        ({"admin_tls": "on"}, "tls_certificate must name a PEM file"),
        ({"admin_tls": "maybe"}, "it must be on or off"),
    ],
)
def test_others_reach_no_endpoint_that_asks_nobody(options: Mapping[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        HubOptions(admin_host="192.0.2.1", access=AccessOptions(mode="open"), **options)  # type: ignore[arg-type]
    HubOptions(admin_host="192.0.2.1", admin_tls="off", access=AccessOptions(mode="rules"))
    HubOptions(admin_host="192.0.2.1", admin_port=-1)


# ----------------------------------------------------------------------------------------------------- every door

T = "topic=mine/1"
S = f"{T}&subscriber=reader"
DOORS: Mapping[tuple[str, str], str] = {
    ("GET", "/health"): "",
    ("GET", "/ready"): "",
    ("GET", "/metrics"): "",
    ("GET", "/options"): "",
    ("GET", "/access"): "",
    ("GET", "/load"): "",
    ("GET", "/busy"): "",
    ("GET", "/pinned"): "",
    ("GET", "/topics"): "",
    ("GET", "/topics/{name}"): "/topics/mine%2F1",
    ("GET", "/lag"): f"?{T}",
    ("GET", "/messages"): f"?{T}",
    ("GET", "/claim"): "",
    ("POST", "/claim"): f"?{T}",
    ("POST", "/release"): f"?{T}",
    ("POST", "/delete-topic"): f"?{T}&version=1",
    ("POST", "/seek"): f"?{S}&to=start",
    ("POST", "/unsubscribe"): f"?{S}",
    ("GET", "/delete-orphans"): "",
    ("POST", "/delete-orphans"): "?ledgers=1",
    ("GET", "/read-only"): "",
    ("POST", "/read-only"): "?state=on",
    ("GET", "/freeze"): "",
    ("POST", "/freeze"): "",
    ("POST", "/thaw"): "",
    ("GET", "/drain"): "",
    ("POST", "/drain"): "?state=on",
}
"""Each route, and what a request adds to its path, or in place of it."""


def routes_of(hub: Hub) -> list[Route]:
    return AdminEndpoint(hub, {})._routes()


async def test_every_door_asks_the_rules(start: Any) -> None:
    asked = await start(RULES)
    routes = routes_of(asked.hub)
    assert {(each.method, each.path.replace(":.+", "")) for each in routes} == DOORS.keys(), "each route has a row"
    for route in routes:
        rest = DOORS[route.method, route.path.replace(":.+", "")]
        door = route.method, rest if rest.startswith("/") else route.path + rest
        action = route.action.spelled
        nobody = await asked.status(*door)
        await asked.allow()
        without = await asked.status(*door, **password())
        await asked.allow(f"allow user:ann {action} mine/*")
        on_topic = await asked.status(*door, **password())
        await asked.allow(f"allow user:ann {action} *", f"deny user:ann {action} mine/*")
        all_but_it = await asked.status(*door, **password())
        await asked.allow(f"allow user:ann {action} *")
        on_all = await asked.status(*door, **password())
        others = Action.all() & ~route.action & ~Action.SUBSCRIBE & ~Action.UNSUBSCRIBE
        await asked.allow(f"allow user:ann {others.spelled} *")
        by_others = await asked.status(*door, **password())
        refused = [status in (401, 403) for status in (nobody, without, on_topic, all_but_it, on_all, by_others)]
        expected = {
            Scope.ANYBODY: [False] * 6,
            Scope.OPERATORS: [True, False, False, False, False, False],
            Scope.HUB: [True, True, True, False, False, True],
            Scope.TOPIC: [True, True, False, True, False, True],
        }
        assert refused == expected[route.scope], (door, refused)
        assert nobody == 401 or route.scope is Scope.ANYBODY


async def test_a_refused_request_changes_nothing(start: Any) -> None:
    asked = await start(RULES | {"anonymous": "ann"})
    await asked.allow("allow user:ann publish,create *", "allow user:ann subscribe * as *", "allow user:ann view *")
    async with HedwigClient(f"127.0.0.1:{asked.hub.port}") as client:
        await client.publish("mine/1", b"m")
        await client.subscribe("mine/1", "reader")
    before = [(each.kind, each.key, each.read()) async for page in asked.hub.metadata.scan() for each in page]
    for route in routes_of(asked.hub):
        if route.method == "POST":
            refused = await asked.ask("POST", route.path + DOORS["POST", route.path], **password())
            assert refused.status == 403
            assert "not permitted: operate" in refused.json["error"]
            assert "by user:ann" in refused.json["error"]
    assert before == [(each.kind, each.key, each.read()) async for page in asked.hub.metadata.scan() for each in page]
    assert not asked.hub.requests.is_read_only
    assert asked.hub.freezing.why is None


async def test_lists_have_what_one_may_see(start: Any) -> None:
    asked = await start(RULES | {"anonymous": "ann"})
    await asked.allow("allow user:ann publish,create *")
    async with HedwigClient(f"127.0.0.1:{asked.hub.port}") as client:
        for name in ("mine/1", "mine/2", "theirs/1", "theirs/2", "mine/secret"):
            await client.publish(name, b"m")
    await asked.allow("allow user:ann view mine/*", "deny user:ann view mine/secret")
    for path in ("/topics", "/busy"):
        rows = (await asked.ask("GET", path, **password())).json["topics"]
        assert sorted(row["topic"] for row in rows) == ["mine/1", "mine/2"], path
        rows = (await asked.ask("GET", path, **token_of(asked.hub))).json["topics"]
        assert len(rows) == 5
    page = (await asked.ask("GET", "/topics?limit=1", **password())).json
    rest = (await asked.ask("GET", f"/topics?limit=1&token={page['next']}", **password())).json
    assert [row["topic"] for row in (*page["topics"], *rest["topics"])] == ["mine/1", "mine/2"]


async def test_in_audit_mode_all_is_done_and_counted(start: Any) -> None:
    asked = await start({"mode": "audit"})
    assert await asked.status("POST", "/read-only?state=on") == 200
    state = (await asked.ask("GET", "/access")).json
    assert (state["mode"], state["refused"], state["asks_operators"]) == ("audit", 2, False)
    assert await asked.status("GET", "/load", Authorization="Bearer wrong") == 401
    assert await asked.status("GET", "/load", **token_of(asked.hub)) == 200


# ------------------------------------------------------------------------------------------------------- who it is


async def test_passwords_are_checked_and_remembered(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await start(RULES)
    await asked.allow("allow user:ann view *")
    computed = []

    def counted(*arguments: Any) -> bytes | None:
        computed.append(arguments)
        return stored_key_of(*arguments)

    monkeypatch.setattr(logins, "stored_key_of", counted)
    for _ in range(3):
        assert await asked.status("GET", "/load", **password()) == 200
    assert len(computed) == 1, "it is computed once"
    said = set()
    for shown in (password("ann", "battery staple"), password("bob"), password("bob\n", "\x00")):
        refused = await asked.ask("GET", "/load", **shown)
        assert refused.status == 401
        said.add(refused.json["error"])
    assert len(said) == 1, "nobody learns whether there is such a user"
    for odd in ("Basic !!", "Basic " + base64.b64encode(b"no colon").decode(), "Basic /w=="):
        assert await asked.status("GET", "/load", Authorization=odd) == 401
    for _ in range(50):  # The pause grows with each that is tried behind it.
        last = await asked.ask("GET", "/load", **password("ann", "battery staple"))
        if last.status == 503:
            break
    assert last.status == 503
    assert "too many logins" in last.json["error"]
    assert await asked.status("GET", "/load", **password()) == 200, "others of that address go on"
    records = UserRecords(asked.hub.metadata.named_records)
    await records.replace("user:ann", User(frozenset(), (make_verifier("battery staple"),)))
    assert asked.hub.access is not None
    await asked.hub.access.refresh()
    assert await asked.status("GET", "/load", **password()) != 200, "the former does not count any more"


async def test_certificates_and_tokens_of_an_issuer_say_who_one_is(start: Any, tmp_path: Path) -> None:
    ours, issuer = Authority(tmp_path / "ours"), Issuer(tmp_path / "keys.json")
    hub_certificate = ours.sign("hub")
    access = {
        **RULES,
        "mechanisms": ("OAUTHBEARER",),
        "client_ca": str(ours.certificate),
        "client_crl": str(ours.revocations),
        "token_keys": str(issuer.file),
        "token_audience": "hedwig",
    }
    asked = await start(access, tls_port=0, tls_certificate=str(hub_certificate), admin_tls="on")
    await asked.allow("allow user:ann view *")
    address = f"127.0.0.1:{asked.hub.admin_port}"

    async def seen(client: Any, **headers: str) -> int:
        return (await asyncio.to_thread(AdminClient(address, client).ask, "GET", "/load", headers)).status

    ann, stranger = ours.client("ann"), ours.client("bob")
    assert await seen(ann) == 200
    assert await seen(stranger) == 403
    assert await seen(stranger, Authorization=f"Bearer {issuer.token()}") == 200, "what it says counts before"
    assert await seen(stranger, Authorization=f"Bearer {issuer.token(exp=1)}") == 401
    assert await seen(stranger, **token_of(asked.hub)) == 200
    ours.revoke("ann")
    assert await seen(ann) == 200, "the hub has not looked yet"
    assert asked.hub.listeners.files is not None
    await asked.hub.listeners.files.look(asked.hub.channels)
    with pytest.raises(OSError, match=r"(?i)revoked|reset|aborted|EOF|closed"):
        await seen(ann)


async def test_a_certificate_revoked_on_an_open_connection_does_not_count(start: Any, tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    access = {"mode": "rules", "client_ca": str(ours.certificate), "client_crl": str(ours.revocations)}
    asked = await start(access, tls_port=0, tls_certificate=str(ours.sign("hub")), admin_tls="on")
    await asked.allow("allow user:ann view *")
    context, files = ours.client("ann"), asked.hub.listeners.files
    assert files is not None

    def ask(connection: socket.socket) -> bytes:
        connection.sendall(b"GET /access HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(1 << 16)

    def connect() -> socket.socket:
        return context.wrap_socket(socket.create_connection(("127.0.0.1", asked.hub.admin_port or 0), 30))

    with await asyncio.to_thread(connect) as connection:
        assert b" 200 OK" in await asyncio.to_thread(ask, connection)
        ours.revoke("ann")
        await files.look(asked.hub.channels)
        answer = await asyncio.to_thread(ask, connection)
        assert b" 401 " in answer
        assert b"revoked" in answer


async def test_who_does_not_shake_hands_keeps_nobody_out(start: Any, tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    asked = await start(tls_certificate=str(ours.sign("hub")), admin_tls="on")
    address = ("127.0.0.1", asked.hub.admin_port)
    silent = [await asyncio.to_thread(socket.create_connection, address, 30) for _ in range(80)]
    try:
        admin = AdminClient(f"127.0.0.1:{asked.hub.admin_port}", ours.client("anybody"))
        answer = await asyncio.to_thread(admin.ask, "GET", "/load", token_of(asked.hub))
        assert answer.status == 200
    finally:
        for each in silent:
            each.close()


# ------------------------------------------------------------------------------------------------------- the audit


async def test_what_operators_do_is_in_the_audit_log_and_no_secret(start: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    asked = await start(RULES | {"audit_file": str(path)})
    await asked.allow("allow user:ann operate *")
    encoded = base64.b64encode(b"mine/\xff").decode()
    assert await asked.status("POST", "/read-only?state=on", **password()) == 200
    assert await asked.status("POST", f"/release?topic_base64={encoded}", **token_of(asked.hub)) == 404
    assert await asked.status("POST", "/read-only?state=on") == 401
    assert await asked.status("GET", "/load", **password()) == 403
    await asked.hub.close()
    text = path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert next(line for line in lines if line["event"] == "start")["mode"] == "rules"
    done = [line for line in lines if line["event"] == "operator"]
    assert [(line["who"], line["action"], line["parameters"], line["status"]) for line in done] == [
        ("user:ann", "POST /read-only", {"state": "on"}, 200),
        ("the admin token", "POST /release", {"topic": "mine/\\xff"}, 404),
    ]
    refused = [(line["who"], line["action"]) for line in lines if line["event"] == "refused"]
    assert refused == [("nobody", "operate"), ("user:ann", "view")]
    assert PASSWORD not in text
    assert token_of(asked.hub)["Authorization"].split()[1] not in text
