"""Commands say who they are to the admin endpoints of hubs: by a token, a password or a certificate."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from hedwig.exit_codes import ExitCode
from hedwig.operations.deployment.admin_access import AdminAccess
from hedwig.private_files import ADMIN_TOKEN
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.command_tree import example_of
from tests.hub.support.running import RunningHub
from tests.hub.support.tls_client import Authority

CLOSED = "access.mode="
"""As a hub is that is told nothing."""


@pytest.fixture
def hub(admin: Admin) -> Iterator[RunningHub]:
    with RunningHub(admin.directory / "hub", CLOSED, f"metadata={admin.environment['HEDWIG_METADATA']}") as running:
        yield running


def test_the_token_of_a_hub_is_found_or_named(admin: Admin, hub: RunningHub, tmp_path: Path) -> None:
    show = ("hub", "show", "--admin", hub.admin, "--columns", "state", "--no-header")
    refused = admin.run(*show)
    assert refused.code == ExitCode.FAILED
    assert "asks who you are" in refused.err
    assert "give --admin-token-file FILE" in refused.err
    token = hub.data / ADMIN_TOKEN
    assert "serving" in admin.done(*show, "--admin-token-file", str(token)).out
    admin.environment["HEDWIG_ADMIN_TOKEN_FILE"] = str(token)
    assert "serving" in admin.done(*show).out
    del admin.environment["HEDWIG_ADMIN_TOKEN_FILE"]
    admin.environment["HEDWIG_DATA"] = str(hub.data)
    assert "serving" in admin.done(*show).out
    wrong = tmp_path / "wrong"
    wrong.write_text("another-token-than-that\n")
    said = admin.run(*show, "--admin-token-file", str(wrong))
    assert (said.code, "the token is another" in said.err) == (ExitCode.FAILED, True)
    assert "another-token-than-that" not in said.err
    missing = admin.run(*show, "--admin-token-file", str(tmp_path / "none"))
    assert missing.code == ExitCode.USAGE


def test_the_token_beside_a_sqlite_store_is_found(admin: Admin, tmp_path: Path) -> None:
    with RunningHub(tmp_path / "other", CLOSED) as running:
        url = f"sqlite://{running.data}/metadata.db"
        assert admin.done("hub", "show", "--admin", running.admin, "--metadata", url).out


def test_a_token_is_made_once(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert admin.done("access", "token", str(file), "-o", "json").json == {"file": str(file), "result": "created"}
    first = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    again = admin.run("access", "token", str(file))
    assert (again.code, "--replace writes another" in again.err) == (ExitCode.VERSION_CONFLICT, True)
    assert admin.done("access", "token", str(file), "--if-missing", "-o", "json").json["result"] == "unchanged"
    assert file.read_text() == first
    admin.done("access", "token", str(file), "--replace")
    assert file.read_text() != first
    assert [each.name for each in tmp_path.iterdir() if "token" in each.name] == ["token"]
    assert admin.run("access", "token", str(tmp_path / "none" / "token")).code == ExitCode.FAILED
    assert admin.run("access", "token", str(file), "--if-missing", "--replace").code == ExitCode.USAGE


def test_a_user_may_do_what_the_rules_say(admin: Admin, tmp_path: Path) -> None:
    password = tmp_path / "ann.txt"
    password.write_text("correct horse\n")
    settings = ("access.mode=rules", "access.mechanisms=SCRAM-SHA-256", "access.refresh_s=0.05")
    admin.done("access", "allow", "user:ann", "view", "*")
    admin.done("access", "allow", "user:local", "publish,create", "*")
    admin.done("access", "user", "add", "ann", "--password-file", str(password))
    with RunningHub(tmp_path / "hub", *settings, f"metadata={admin.environment['HEDWIG_METADATA']}") as hub:
        as_ann = ("--admin", hub.admin, "--user", "ann", "--password-file", str(password))
        status = admin.done("access", "status", *as_ann, "-o", "json").json["hubs"]
        assert [(row["mode"], row["version"], row["newest"], row["users"]) for row in status] == [("rules", 3, 3, 1)]
        admin.environment["HEDWIG_ADMIN"] = hub.admin
        assert admin.done(*example_of(("access", "status")), "--admin-token-file", str(hub.data / ADMIN_TOKEN)).out
        assert "serving" in admin.done("hub", "show", *as_ann).out
        admin.done("publish", "news", "m", "--hub", hub.address)
        refused = admin.run("topic", "release", "news", *as_ann)
        assert (refused.code, "not permitted: operate topic 'news' by user:ann" in refused.err) == (1, True)
        admin.done("access", "allow", "user:ann", "operate", "news")
        wait_until(lambda: admin.run("topic", "release", "news", *as_ann).code == ExitCode.DONE, "ann may")


def test_a_hub_with_https_is_asked_by_certificate_or_token(admin: Admin, tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    certificate, ann = ours.sign("hub"), ours.sign("ann")
    settings = (
        "access.mode=rules",
        "access.refresh_s=0.05",
        f"access.client_ca={ours.certificate}",
        "admin_tls=on",
        f"tls_certificate={certificate}",
    )
    admin.done("access", "allow", "user:ann", "view", "*")
    with RunningHub(tmp_path / "hub", *settings, f"metadata={admin.environment['HEDWIG_METADATA']}") as hub:
        assert hub.admin.startswith("https://")
        show = ("hub", "show", "--admin", hub.admin)
        untrusted = admin.run(*show)
        assert (untrusted.code, "Name its authority with --tls-ca FILE" in untrusted.err) == (ExitCode.FAILED, True)
        trusted = (*show, "--tls-ca", str(ours.certificate))
        assert admin.run(*trusted).code == ExitCode.FAILED
        assert "serving" in admin.done(*trusted, "--tls-certificate", str(ann)).out
        token = ("--admin-token-file", str(hub.data / ADMIN_TOKEN))
        assert "serving" in admin.done(*trusted, *token).out
        assert "serving" in admin.done(*show, "--tls-insecure", *token).out
        assert admin.run(*trusted, "--tls-certificate", str(ours.certificate)).code == ExitCode.USAGE


class _Thief(BaseHTTPRequestHandler):
    """Notes what it is shown, and asks for more."""

    shown: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": "this admin endpoint asks who you are"}\n')

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_no_secret_goes_to_another_machine_in_the_clear(admin: Admin, tmp_path: Path) -> None:
    token = tmp_path / "token"
    admin.done("access", "token", str(token))
    _Thief.shown.clear()
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Thief)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        # Of this address the command does not know that it leads to this machine.
        at = f"0.0.0.0:{server.server_address[1]}"
        ask = ("hub", "show", "--admin", at, "--admin-token-file", str(token))
        said = admin.run(*ask)
        assert "give --plain-token" in said.err
        assert set(_Thief.shown) == {None}
        _Thief.shown.clear()
        admin.run(*ask, "--plain-token")
        assert _Thief.shown[0] == f"Bearer {token.read_text().strip()}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_token_that_was_found_is_for_this_machine_only(tmp_path: Path) -> None:
    (tmp_path / ADMIN_TOKEN).write_text("0123456789abcdef\n")
    found = AdminAccess(data=str(tmp_path), is_plain=True)
    assert [found.header(host) for host in ("127.0.0.1", "::1", "localhost")] == ["Bearer 0123456789abcdef"] * 3
    assert found.header("192.0.2.1") is None
    assert found.header("localhost.example") is None
    named = AdminAccess(token_file=str(tmp_path / ADMIN_TOKEN), data=str(tmp_path))
    assert [named.may_send("192.0.2.1", has_tls=tls) for tls in (False, True)] == [False, True]
    assert named.may_send("127.0.0.1", has_tls=False)
