"""Prove that servers accept writes of every durability that a URL can ask for, through both drivers."""

import pytest

from hedwig.errors import ConfigurationError
from hedwig.metadata import MetadataUrl, open_metadata
from hedwig.metadata.hbase.durability import Durability
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW
from tests.metadata.hbase.native.conftest import Namespace

HUB = HubInfo(host="hub-1", port=4080, epoch=1)


@pytest.mark.parametrize("durability", [each.name.lower() for each in Durability])
@pytest.mark.parametrize("way", ["native", "gateway"])
async def test_a_record_is_written_and_deleted(way: str, durability: str, namespace: Namespace) -> None:
    url = namespace.url
    if way == "gateway":
        url = f"hbase+thrift://{namespace.servers.address('thrift2')}/{namespace.name}"
    topic = Topic(f"written {durability} through {way}".encode())
    async with await open_metadata(f"{url}?durability={durability}") as store:
        version = await store.ownership.write(topic, HUB, NEW)
        await store.ownership.delete(topic, version)
        assert await store.ownership.read(topic) is None


def test_nothing_is_asked_for_unless_the_url_does() -> None:
    assert Durability.of(MetadataUrl.parse("hbase://localhost/hedwig")) is Durability.CLUSTER


@pytest.mark.parametrize("text", ["", "none", "FSYNC", "4"])
def test_another_durability_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="durability is cluster, sync or fsync"):
        Durability.of(MetadataUrl.parse(f"hbase://localhost/hedwig?durability={text}"))
