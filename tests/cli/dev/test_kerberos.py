"""Prove that programs log in to HBase by Kerberos, and that HBase serves nobody else."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedwig.cli.dev import DevError, DevServers
from hedwig.cli.dev.certificates import CLIENT_PRINCIPAL
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.metadata.hbase.native.wire.tokens import Token
from hedwig.model import LedgerRanges, Topic
from hedwig.store_access import HBaseAccess, KerberosLogin, StoreAccess
from hedwig.versions import NEW
from tests.cli.support.admin import Admin
from tests.support.servers import UNSYNCED, RunningServers

pytestmark = [pytest.mark.full, pytest.mark.servers]

_SHORT_S = 15.0


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    """Servers that know programs by Kerberos."""
    servers = DevServers(tmp_path_factory.mktemp("kerberos") / "servers", **UNSYNCED)
    try:
        servers.up(["kdc", "hbase"], secure=True)
        asyncio.run(format_metadata(_url(servers), _options(servers)))
        yield servers
    finally:
        servers.down()


def _url(servers: DevServers) -> str:
    return f"hbase://{servers.address('zookeeper')}/hedwig"


def _file(servers: DevServers) -> Path:
    assert servers.stores_file is not None
    return servers.stores_file


def _options(servers: DevServers) -> StoreOptions:
    return StoreOptions(stores_file=str(_file(servers)))


def test_commands_work(kerberos: DevServers, admin: Admin) -> None:
    given = ("--metadata", _url(kerberos), "--stores-file", str(_file(kerberos)))
    assert "store_id" in admin.run("metadata", "format", *given).out
    assert "created" in admin.run("topic", "create", "orders", *given).out
    assert "orders" in admin.run("topic", "list", *given).out


async def test_programs_without_a_login_are_refused(kerberos: DevServers, tmp_path: Path) -> None:
    here = _file(kerberos).parent
    kept = [line for line in _file(kerberos).read_text().splitlines() if not line.startswith("kerberos_")]
    without = tmp_path / "stores.toml"
    without.write_text("\n".join(kept).replace('= "c', f'= "{here}/c'))
    with pytest.raises(MetadataUnavailableError, match="Authentication is required"):
        await open_metadata(_url(kerberos), StoreOptions(stores_file=str(without), operation_timeout_s=_SHORT_S))


def _login(servers: DevServers) -> KerberosLogin:
    login = StoreAccess.read(str(_file(servers))).hbase.kerberos
    assert login is not None
    return login


async def _connect(address: str, access: HBaseAccess) -> None:
    _, port = address.split(":")
    server = Server("localhost", int(port))
    (await Connection.open(server, "MasterService", "ann", lambda _: None, access)).close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"client": "other@HEDWIG.DEV"}, "no login by Kerberos"),
        ({"client": "", "keytab": None}, "No Kerberos credentials available"),
        ({"servers": "nobody@HEDWIG.DEV"}, "no login by Kerberos: .* not found in Kerberos database"),
        ({"servers": CLIENT_PRINCIPAL}, "the server refuses the login|the login ended"),
        ({}, None),
    ],
)
async def test_both_sides_must_know_each_other(
    kerberos: DevServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str | None
) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "no tickets"))
    tls = StoreAccess.read(str(_file(kerberos))).hbase.tls
    connecting = _connect(kerberos.address("hbase"), HBaseAccess(tls, replace(_login(kerberos), **changes)))
    if said is None:
        await connecting
    else:
        with pytest.raises(PermissionError, match=said):
            await connecting


def _by_token(servers: DevServers, token: Path) -> str:
    """Return a stores file with the path of a token, and without Kerberos."""
    here = _file(servers).parent
    kept = [line for line in _file(servers).read_text().splitlines() if not line.startswith("kerberos_")]
    text = "\n".join(kept).replace('= "c', f'= "{here}/c').replace("[hbase]", f'[hbase]\ntoken = "{token}"')
    path = token.parent / "by-token.toml"
    path.write_text(text)
    return str(path)


async def test_programs_log_in_by_a_token_without_keytab_and_tickets(
    kerberos: DevServers, admin: Admin, tmp_path: Path
) -> None:
    token = tmp_path / "hbase.token"
    given = ("--metadata", _url(kerberos), "--stores-file", str(_file(kerberos)))
    command = ("metadata", "hbase-token", str(token))
    made = await asyncio.to_thread(admin.run_apart, *command, *given)
    assert "created" in made.out, made
    assert token.stat().st_mode & 0o777 == 0o600
    again = await asyncio.to_thread(admin.run_apart, *command, *given)
    assert "exists already; write over it with --replace" in again.err
    replaced = await asyncio.to_thread(admin.run_apart, *command, "--replace", *given)
    assert "created" in replaced.out, replaced
    await asyncio.to_thread(kerberos.kill, "kdc")
    try:
        options = StoreOptions(stores_file=_by_token(kerberos, token))
        async with await open_metadata(_url(kerberos), options) as store:
            await store.persistence.write(Topic(b"by-a-token"), LedgerRanges(), NEW)
            assert await store.persistence.read(Topic(b"by-a-token")) is not None
    finally:
        await asyncio.to_thread(kerberos.start, "kdc")
    tls = StoreAccess.read(str(_file(kerberos))).hbase.tls
    await _connect(kerberos.address("hbase"), HBaseAccess(tls, None, token))
    other = Token.read(token)
    token.write_text(Token(other.identifier, other.password[::-1]).text)
    with pytest.raises(PermissionError, match="the server refuses the login"):
        await _connect(kerberos.address("hbase"), HBaseAccess(tls, None, token))


async def test_a_server_that_asks_nobody_is_not_believed(kerberos: DevServers, servers: RunningServers) -> None:
    with pytest.raises(PermissionError, match="asks nobody for a login"):
        await _connect(servers.address("hbase"), HBaseAccess(None, _login(kerberos)))


async def test_while_kerberos_is_away_programs_go_on(kerberos: DevServers) -> None:
    async with await open_metadata(_url(kerberos), _options(kerberos)) as store:
        await store.persistence.write(Topic(b"before"), LedgerRanges(), NEW)
        await asyncio.to_thread(kerberos.kill, "kdc")
        try:
            await store.persistence.write(Topic(b"meanwhile"), LedgerRanges(), NEW)
            async with await open_metadata(_url(kerberos), _options(kerberos)) as other:
                assert await other.persistence.read(Topic(b"meanwhile")) is not None, "this process has tickets"
        finally:
            await asyncio.to_thread(kerberos.start, "kdc")


def test_new_programs_log_in_once_it_is_back(kerberos: DevServers, admin: Admin) -> None:
    given = ("--metadata", _url(kerberos), "--stores-file", str(_file(kerberos)))
    kerberos.stop("kdc")
    kerberos.start("kdc")
    ran = admin.run_apart("topic", "create", "afterwards", *given)
    assert "created" in ran.out, ran


def test_kerberos_is_not_added_to_servers_that_run(kerberos: DevServers, tmp_path: Path) -> None:
    with pytest.raises(DevError, match="Kerberos is for secure servers"):
        DevServers(tmp_path / "open").up(["kdc"])
