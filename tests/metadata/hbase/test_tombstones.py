"""Deletes leave tombstones. Readers never see them, and the sweep removes them once no call can meet them."""

import asyncio
import time

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import InvalidArgumentError, NoTopicOwnerInfoError
from hedwig.metadata import MetadataStore, StoreOptions, open_metadata
from hedwig.metadata.hbase.keys import topic_key
from hedwig.model import HubInfo, Topic
from hedwig.versions import NEW
from tests.metadata.hbase.conftest import Namespace

HUB = HubInfo(host="hub-1", port=4080, epoch=1)


class LaterClock(SystemClock):
    """A clock two hours ahead, so that new cells seem old."""

    def wall(self) -> float:
        return time.time() + 7200


async def test_a_delete_leaves_a_tombstone_that_new_takes_over(
    hbase_store: MetadataStore, namespace: Namespace
) -> None:
    topic = Topic(b"taken over")
    version = await hbase_store.ownership.write(topic, HUB, NEW)
    await hbase_store.ownership.delete(topic, version)
    with namespace.happybase() as connection:
        row = connection.table(f"{namespace.name}:ownership").row(topic_key(topic), columns=[b"o:v", b"o:d"])
    assert row[b"o:v"][:1] == b"T"
    assert row[b"o:d"] == b""
    assert await hbase_store.ownership.read(topic) is None
    again = await hbase_store.ownership.write(topic, HUB, NEW)
    number = [int.from_bytes(one.raw[2:10], "big") for one in (version, again)]
    assert number[1] - number[0] == 2, "the delete is a write like any other"


async def test_sweeping_removes_old_tombstones_and_nothing_else(
    hbase_store: MetadataStore, namespace: Namespace
) -> None:
    topics = [Topic(b"swept %d" % index) for index in range(20)]
    versions = [await hbase_store.ownership.write(topic, HUB, NEW) for topic in topics]
    for topic, version in list(zip(topics, versions, strict=True))[:15]:
        await hbase_store.ownership.delete(topic, version)
    assert await hbase_store.sweep() == 0, "they are younger than an hour"
    async with await open_metadata(namespace.url, StoreOptions(clock=LaterClock())) as later:
        counted = await later.sweep(dry_run=True)
        assert counted == await later.sweep() >= 15, "counting removed nothing"
        assert await later.sweep() == await later.sweep(dry_run=True) == 0
    with namespace.happybase() as connection:
        table = connection.table(f"{namespace.name}:ownership")
        left = [topic for topic in topics if b"o:v" in table.row(topic_key(topic))]
    assert left == topics[15:]
    with pytest.raises(NoTopicOwnerInfoError):
        await hbase_store.ownership.write(topics[0], HUB, versions[0])
    made = await asyncio.gather(*(hbase_store.ownership.write(topic, HUB, NEW) for topic in topics[:15]))
    assert not set(made) & set(versions)
    records = [await hbase_store.ownership.read(topic) for topic in topics]
    assert all(record is not None and record.value == HUB for record in records)


async def test_young_tombstones_are_not_to_be_swept(hbase_store: MetadataStore) -> None:
    with pytest.raises(InvalidArgumentError, match="3600 s"):
        await hbase_store.sweep(older_than_s=60)
    with pytest.raises(InvalidArgumentError, match="3600 s"):
        await hbase_store.sweep(older_than_s=60, dry_run=True)
