"""Prove that a stores file is read whole or refused with a reason, which never has a secret in it."""

import pickle
import traceback
from pathlib import Path

import pytest

from hedwig.errors import ConfigurationError
from hedwig.store_access import NO_ACCESS, NO_HBASE_ACCESS, HBaseAccess, KerberosLogin, StoreAccess
from tests.hub.support.tls_client import Authority

_SECRET = "a-canary-of-a-password"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def _write(directory: Path, text: str) -> str:
    path = directory / "stores.toml"
    path.write_text(text)
    return str(path)


def test_nothing_is_shown_without_a_file() -> None:
    assert StoreAccess.read("") == StoreAccess(NO_ACCESS, NO_HBASE_ACCESS, None)


def test_paths_are_relative_to_the_file(tmp_path: Path, authority: Authority) -> None:
    authority.sign("hub")
    tls = 'tls_ca = "authority/ca.pem"\ntls_certificate = "authority/hub.pem"\n'
    text = (
        f'[zookeeper]\nlogins = ["hub:{_SECRET}", "old:er:one"]\nnew_nodes = "open"\n{tls}[hbase]\n{tls}[bookkeeper]\n'
    )
    access = StoreAccess.read(_write(tmp_path, text))
    assert access.zookeeper.logins == (f"hub:{_SECRET}", "old:er:one")
    assert not access.zookeeper.closes_nodes
    assert access.hbase == HBaseAccess(access.zookeeper.tls)
    assert access.hbase.tls is not None
    assert access.hbase.tls.authorities == authority.certificate
    assert access.bookkeeper is None
    assert _SECRET not in repr(access)
    assert pickle.loads(pickle.dumps(access)) == access


def test_hbase_may_want_a_login_by_kerberos(tmp_path: Path) -> None:
    text = '[hbase]\nkerberos_servers = "hbase/_HOST@HERE"\n'
    assert StoreAccess.read(_write(tmp_path, text)).hbase == HBaseAccess(None, KerberosLogin("hbase/_HOST@HERE"))
    for name in ("hub.keytab", "krb5.conf"):
        (tmp_path / name).write_bytes(b"")
    text += 'kerberos_client = "hub@HERE"\nkerberos_keytab = "hub.keytab"\nkerberos_config = "krb5.conf"\n'
    login = KerberosLogin("hbase/_HOST@HERE", "hub@HERE", tmp_path / "hub.keytab", tmp_path / "krb5.conf")
    assert StoreAccess.read(_write(tmp_path, text)).hbase.kerberos == login
    text = '[hbase]\ntoken = "hbase.token"\n'
    assert StoreAccess.read(_write(tmp_path, text)).hbase == HBaseAccess(token=tmp_path / "hbase.token")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("zookeeper = 1", "zookeeper must be a table"),
        ("[redis]", "there is no table 'redis'; choose from zookeeper, hbase, bookkeeper"),
        ('[zookeeper]\npassword = "{secret}"', "zookeeper.password is unknown; choose from logins, new_nodes, tls_ca"),
        ('[hbase]\nlogins = ["{secret}"]', "hbase.logins is unknown; choose from kerberos_client, .*, tls_ca, tls"),
        ('[zookeeper]\nlogins = "{secret}"', "logins must be texts"),
        ('[zookeeper]\nlogins = ["{secret}"]', "logins must be texts"),
        ('[zookeeper]\nlogins = [":{secret}"]', "logins must be texts"),
        ('[zookeeper]\nlogins = ["hub:{secret}", 3]', "logins must be texts"),
        ('[zookeeper]\nlogins = ["hub:{secret}é"]', "logins must be texts"),
        ('[zookeeper]\nlogins = ["hub:{secret}\\n"]', "logins must be texts"),
        ('[zookeeper]\nnew_nodes = "shut"', "new_nodes must be 'closed' or 'open'"),
        ('[zookeeper]\ntls_certificate = "hub.pem"', "zookeeper.tls_certificate needs zookeeper.tls_ca"),
        ('[bookkeeper]\ntls_ca = ""', "bookkeeper.tls_ca must be the path"),
        ("[bookkeeper]\ntls_ca = 3", "bookkeeper.tls_ca must be the path"),
        ('[hbase]\ntls_ca = "nowhere.pem"', "cannot read authorities in .*nowhere.pem: No such file or directory"),
        ('[hbase]\ntls_ca = "stores.toml"', "cannot read authorities in .*stores.toml"),
        (
            '[hbase]\ntls_ca = "authority/ca.pem"\ntls_certificate = "authority/ca.pem"',
            "needs a certificate, and its key",
        ),
        ('[hbase]\nkerberos_client = "hub@HERE"', "kerberos_client needs hbase.kerberos_servers"),
        ("[hbase]\nkerberos_servers = 1", "hbase.kerberos_servers must be a text"),
        ('[hbase]\nkerberos_servers = "hbase/_HOST@HERE"\nkerberos_keytab = "stores.toml"', "need each other"),
        (
            '[hbase]\nkerberos_servers = "hbase/_HOST@HERE"\nkerberos_config = "nowhere.conf"',
            "cannot read .*nowhere.conf: No such file",
        ),
        ("[hbase]\ntoken = 1", "hbase.token must be the path"),
        (
            '[hbase]\ntoken = "hbase.token"\nkerberos_servers = "hbase/_HOST@HERE"',
            "hbase.token takes the place of a login by Kerberos",
        ),
        ('logins = ["hub:{secret}" "x"]', "is no TOML"),
        ('[zookeeper]\nlogins = ["hub:{secret}', "is no TOML"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, authority: Authority, text: str, said: str) -> None:
    path = _write(tmp_path, text.replace("{secret}", _SECRET))
    with pytest.raises(ConfigurationError, match=said) as raised:
        StoreAccess.read(path)
    assert "stores.toml" in str(raised.value)
    assert _SECRET not in "".join(traceback.format_exception(raised.value))


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the stores file .*nowhere.toml: No such file"):
        StoreAccess.read(str(tmp_path / "nowhere.toml"))
    (tmp_path / "stores.toml").write_text("#" * (1 << 16) + "\n[zookeeper]\n")
    with pytest.raises(ConfigurationError, match="has more than 65536 bytes"):
        StoreAccess.read(str(tmp_path / "stores.toml"))
    (tmp_path / "stores.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is no TOML"):
        StoreAccess.read(str(tmp_path / "stores.toml"))
