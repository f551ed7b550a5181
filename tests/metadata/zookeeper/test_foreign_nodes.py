"""Prove that a store is never laid out among the nodes of HBase or BookKeeper, and changes nothing there."""

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ConfigurationError
from hedwig.metadata import format_metadata
from tests.metadata.zookeeper.conftest import Prefix
from tests.support.servers import RunningServers


@pytest.mark.parametrize("below", ["", "/hedwig", "/table/hedwig/standalone"])
async def test_no_store_is_laid_out_in_the_nodes_of_hbase(
    servers: RunningServers, raw: KazooClient, below: str
) -> None:
    servers.address("hbase")
    before = sorted(raw.get_children("/hbase"))
    for wipe in (False, True):
        with pytest.raises(ConfigurationError, match="/hbase in ZooKeeper is where HBase keeps its own nodes"):
            await format_metadata(f"zookeeper://{servers.address('zookeeper')}/hbase{below}", wipe=wipe)
    assert sorted(raw.get_children("/hbase")) == before


async def test_no_store_is_laid_out_in_the_nodes_of_bookkeeper(prefix: Prefix, raw: KazooClient) -> None:
    for child in ("LAYOUT", "available"):
        raw.create(f"{prefix.path}/ledgers/{child}", b"", makepath=True)
    for below in ("", "/hedwig"):
        with pytest.raises(ConfigurationError, match="/ledgers in ZooKeeper is where BookKeeper keeps its own nodes"):
            await format_metadata(f"{prefix.url}/ledgers{below}")
    assert sorted(raw.get_children(f"{prefix.path}/ledgers")) == ["LAYOUT", "available"]
    # A hub of the original has its store beside these nodes, and a region may have the name of one of them.
    await format_metadata(f"{prefix.url}")
    await format_metadata(f"{prefix.url}/available")
    await format_metadata(f"{prefix.url}/other")
