"""Prove that programs log in to HBase by Kerberos, and that HBase serves nobody else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.cli.dev import DevError, DevServers
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import StoreOptions, format_metadata, open_metadata
from hedwig.metadata.hbase.native.wire.connection import Connection
from hedwig.metadata.hbase.native.wire.regions import Server
from hedwig.model import LedgerRanges, Topic
from hedwig.store_access import HBaseAccess, StoreAccess
from hedwig.versions import NEW
from tests.cli.support.admin import Admin
from tests.support.servers import UNSYNCED, RunningServers

pytestmark = [pytest.mark.full, pytest.mark.servers]

_SHORT_S = 5.0


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


def _changed(servers: DevServers, directory: Path, *lines: str) -> str:
    """Return a stores file with some lines on Kerberos in place of those that there are."""
    here = _file(servers).parent
    kept = [line for line in _file(servers).read_text().splitlines() if not line.startswith("kerberos_")]
    text = "\n".join(kept).replace('= "c', f'= "{here}/c').replace("[bookkeeper]", "\n".join([*lines, "[bookkeeper]"]))
    path = directory / "stores.toml"
    path.write_text(text.replace("HERE", str(here)))
    return str(path)


def _options(servers: DevServers, file: str = "") -> StoreOptions:
    return StoreOptions(stores_file=file or str(_file(servers)), operation_timeout_s=_SHORT_S)


def test_commands_work(kerberos: DevServers, admin: Admin) -> None:
    given = ("--metadata", _url(kerberos), "--stores-file", str(_file(kerberos)))
    assert "store_id" in admin.run("metadata", "format", *given).out
    assert "created" in admin.run("topic", "create", "orders", *given).out
    assert "orders" in admin.run("topic", "list", *given).out


async def test_programs_without_a_login_are_refused(kerberos: DevServers, tmp_path: Path) -> None:
    file = _changed(kerberos, tmp_path)
    with pytest.raises(MetadataUnavailableError, match="Authentication is required"):
        await open_metadata(_url(kerberos), _options(kerberos, file))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['kerberos_client = "other@HEDWIG.DEV"', 'kerberos_keytab = "HERE/client.keytab"'], "no login by Kerberos"),
        ([], "No Kerberos credentials available"),
    ],
)
async def test_who_has_no_tickets_hears_why(
    kerberos: DevServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], said: str
) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "no tickets"))
    common = ['kerberos_servers = "hbase/localhost@HEDWIG.DEV"', 'kerberos_config = "HERE/krb5.conf"']
    with pytest.raises(MetadataUnavailableError, match=said):
        await open_metadata(_url(kerberos), _options(kerberos, _changed(kerberos, tmp_path, *common, *lines)))


async def test_servers_of_another_principal_are_not_believed(kerberos: DevServers, tmp_path: Path) -> None:
    lines = [line for line in _file(kerberos).read_text().splitlines() if line.startswith("kerberos_")]
    lines = [
        line.replace("hbase/localhost", "hedwig").replace('= "c', '= "HERE/c').replace('= "k', '= "HERE/k')
        for line in lines
    ]
    with pytest.raises(MetadataUnavailableError, match="login"):
        await open_metadata(_url(kerberos), _options(kerberos, _changed(kerberos, tmp_path, *lines)))


async def test_a_server_that_asks_nobody_is_not_believed(kerberos: DevServers, servers: RunningServers) -> None:
    login = StoreAccess.read(str(_file(kerberos))).hbase.kerberos
    _, port = servers.address("hbase").split(":")
    with pytest.raises(PermissionError, match="asks nobody for a login"):
        await Connection.open(
            Server("localhost", int(port)), "MasterService", "ann", lambda _: None, HBaseAccess(None, login)
        )


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
