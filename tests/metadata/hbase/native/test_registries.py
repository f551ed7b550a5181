"""The driver finds the cluster through ZooKeeper, the master or a region server, and reports when it cannot."""

import pytest

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import MetadataUnavailableError
from hedwig.metadata import StoreOptions, open_metadata
from hedwig.metadata.hbase.native.cluster.znodes import read_node
from hedwig.model import HubInfo, Topic
from hedwig.outcomes import NotAppliedError
from hedwig.versions import NEW
from tests.metadata.hbase.native.conftest import Namespace, soon

HUB = HubInfo(host="hub-1", port=4080, epoch=1)


@pytest.mark.parametrize("through", ["zookeeper", "master", "region server", "a closed port first"])
async def test_a_store_is_found(through: str, namespace: Namespace) -> None:
    url = {
        "zookeeper": f"{namespace.url}?registry=zookeeper&znode=/hbase",
        "master": f"hbase://{namespace.master}/{namespace.name}?registry=rpc",
        "region server": f"hbase://{namespace.region_server}/{namespace.name}?registry=rpc",
        "a closed port first": f"hbase://127.0.0.1:1,{namespace.master}/{namespace.name}?registry=rpc",
    }[through]
    topic = Topic(f"found through {through}".encode())
    async with await open_metadata(url) as store:
        version = await store.ownership.write(topic, HUB, NEW)
        record = await store.ownership.read(topic)
        assert record is not None
        assert record.version == version
        facts = await store.describe()
    assert facts["HBase version"].startswith("2.")
    assert len(facts["HBase cluster"]) == 36
    assert "found through" in facts["access"]


async def test_another_znode_is_told(namespace: Namespace) -> None:
    with pytest.raises(MetadataUnavailableError, match="has no /nowhere/master; HBase is down, or uses another znode"):
        await open_metadata(f"{namespace.url}?znode=/nowhere", StoreOptions(operation_timeout_s=1.0))


async def test_a_server_that_is_no_hbase_is_told(namespace: Namespace) -> None:
    quorum = namespace.servers.address("zookeeper")
    with pytest.raises(MetadataUnavailableError) as refusal:
        await open_metadata(f"hbase://{quorum}/x?registry=rpc", StoreOptions(operation_timeout_s=2.0))
    assert "\n" not in str(refusal.value)


async def test_a_node_is_read_as_it_is(namespace: Namespace) -> None:
    host, _, port = namespace.servers.address("zookeeper").rpartition(":")
    content = await read_node(host, int(port), "/hbase/hbaseid", soon())
    assert content is not None
    assert b"PBUF" in content
    assert await read_node(host, int(port), "/hbase/no such node", soon()) is None
    with pytest.raises(NotAppliedError):
        await read_node(host, 1, "/hbase/hbaseid", soon())
    with pytest.raises(NotAppliedError):
        await read_node(host, int(port), "/hbase/hbaseid", Deadline.after(SystemClock(), 0.0))
