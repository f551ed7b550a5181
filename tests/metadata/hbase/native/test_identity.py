"""Prove whose rights a refusal tells the operator to grant."""

import pytest

from hedwig.errors import ConfigurationError
from hedwig.metadata.contract.url import MetadataUrl
from hedwig.metadata.hbase.native.wire.identity import Identity
from hedwig.store_access import HBaseAccess, KerberosLogin


@pytest.mark.parametrize(
    ("parameters", "client", "user"),
    [
        ("", "", "of-the-variable"),
        ("?user=ann", "", "ann"),
        ("?user=ann", "hub@EXAMPLE.ORG", "hub"),
        ("", "hub/host1@EXAMPLE.ORG", "hub"),
    ],
)
def test_the_user_is_that_of_the_login(
    monkeypatch: pytest.MonkeyPatch, parameters: str, client: str, user: str
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "of-the-variable")
    access = HBaseAccess(None, KerberosLogin("hbase/_HOST@EXAMPLE.ORG", client))
    identity = Identity.of(MetadataUrl.parse(f"hbase://zk/hedwig{parameters}"), access)
    assert identity.advice_for_records == f"in the shell of HBase: grant '{user}', 'RW', '@hedwig'"


def test_a_user_has_a_name() -> None:
    with pytest.raises(ConfigurationError, match="the name of a user"):
        Identity.of(MetadataUrl.parse("hbase://zk/hedwig?user="))
