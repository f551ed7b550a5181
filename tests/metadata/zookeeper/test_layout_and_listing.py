"""Prove that a store has the original's layout, that wiping keeps the hosts, and that listings have topics only."""

import asyncio
import re

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ConfigurationError, LayoutMismatchError, LayoutMissingError
from hedwig.metadata import MetadataStore, RecordKey, StoreOptions, Write, format_metadata, open_metadata
from hedwig.metadata.zookeeper.records.paths import sort_key
from hedwig.model import HubInfo, LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW
from tests.metadata.zookeeper.conftest import Prefix

LAYOUT = b'managerImpl: "org.apache.hedwig.server.meta.ZkMetadataManagerFactory"\nmanagerVersion: 1\n'


async def test_layout_is_the_originals(prefix: Prefix, raw: KazooClient) -> None:
    layout = await format_metadata(prefix.url)
    assert (layout.kind, layout.major) == ("zookeeper", 1)
    assert raw.get(f"{prefix.path}/managers/METADATA/LAYOUT")[0] == LAYOUT
    assert raw.get(f"{prefix.path}/topics")[1].numChildren == 0
    assert await format_metadata(prefix.url) == layout


async def test_layout_written_by_the_original_is_accepted(prefix: Prefix, raw: KazooClient) -> None:
    raw.create(f"{prefix.path}/managers/METADATA/LAYOUT", LAYOUT, makepath=True)
    with pytest.raises(LayoutMissingError, match="topics"):
        await open_metadata(prefix.url)
    await format_metadata(prefix.url)
    async with await open_metadata(prefix.url) as store:
        assert [topic async for topic in store.topics()] == []


@pytest.mark.parametrize("wipe", [False, True])
async def test_store_of_the_originals_other_manager_is_refused_and_kept(
    prefix: Prefix, raw: KazooClient, wipe: bool
) -> None:
    other = LAYOUT.replace(b"ZkMetadata", b"MsMetadata")
    raw.create(f"{prefix.path}/managers/METADATA/LAYOUT", other, makepath=True)
    raw.create(f"{prefix.path}/topics/t/hub", b"", makepath=True)
    with pytest.raises(LayoutMismatchError, match=r"MsMetadataManagerFactory.*zookeeper"):
        await open_metadata(prefix.url)
    with pytest.raises(LayoutMismatchError):
        await format_metadata(prefix.url, wipe=wipe)
    assert raw.exists(f"{prefix.path}/topics/t/hub")


async def test_url_without_a_path_shows_an_example(prefix: Prefix) -> None:
    for path in ("", "/"):
        with pytest.raises(ConfigurationError, match=re.escape("zookeeper://127.0.0.1:2181/hedwig/standalone")):
            await open_metadata(f"zookeeper://{prefix.address}{path}")
    for path in ("/zookeeper/x", "/a/../b", "/a//b", "/a/", "/a%00b"):
        with pytest.raises(ConfigurationError, match="path"):
            await open_metadata(f"zookeeper://{prefix.address}{path}")


async def test_wiping_takes_records_and_keeps_hosts(store: MetadataStore, prefix: Prefix, raw: KazooClient) -> None:
    host = f"{prefix.path}/hosts/10.0.0.1:4080:9876"
    await asyncio.to_thread(raw.create, host, b"numTopics: 3\n", None, False, False, True)
    topics = [Topic(b"%d/%d/%d" % (number % 3, number % 50, number)) for number in range(600)]
    for manager in (store.ownership, store.persistence):
        record = HubInfo(host="h", port=1) if manager is store.ownership else LedgerRanges()
        outcomes = await manager.apply([Write(RecordKey(topic), record, NEW) for topic in topics])  # type: ignore[arg-type]
        assert all(outcome.error is None for outcome in outcomes)
    keys = [RecordKey(topics[0], SubscriberId(b"%d" % number)) for number in range(700)]
    await store.subscriptions.apply([Write(key, SubscriptionData(), NEW) for key in keys])
    await format_metadata(prefix.url, wipe=True)
    assert set((await store.count()).values()) == {0}
    assert await asyncio.to_thread(raw.get_children, f"{prefix.path}/topics") == []
    assert (await asyncio.to_thread(raw.get, host))[0] == b"numTopics: 3\n"


async def test_only_topics_with_a_record_of_the_kind_are_listed(
    store: MetadataStore, prefix: Prefix, raw: KazooClient
) -> None:
    for path in ("bare", "emptied/subscribers", "%=%zz/hub", "a/%=%00/hub", "%=plain/ledgers"):
        await asyncio.to_thread(raw.ensure_path, f"{prefix.path}/topics/{path}")
    owned, kept, read = Topic(b"owned/deep/down"), Topic(b"kept\x00"), Topic(b"read")
    await store.ownership.write(owned, HubInfo(host="h", port=1), NEW)
    await store.persistence.write(kept, LedgerRanges(), NEW)
    await store.subscriptions.create(read, SubscriberId(b"s"), SubscriptionData())
    assert [topic async for topic in store.ownership.topics()] == [owned]
    assert [topic async for topic in store.persistence.topics()] == [kept]
    assert [topic async for topic in store.subscriptions.topics()] == [read]
    assert await store.count() == {"ownership": 1, "persistence": 1, "subscriptions": 1}
    for page in (store.ownership, store.persistence, store.subscriptions):
        assert [topic async for topic in page.topics(start_after=Topic(b"z"))] == []


@pytest.mark.parametrize("in_flight_max", [1, 2, 1024])
async def test_walk_is_in_order_however_far_it_looks_ahead(
    store: MetadataStore, prefix: Prefix, in_flight_max: int
) -> None:
    names = {b"%s/%d" % (part, number) for part in (b"wide", b"w", b"deep/er/still", b"\xff") for number in range(120)}
    names |= {b"deep", b"deep/er", b"w-", b"w/1/2", b"wide/7/x/y/z"}
    topics = [Topic(name) for name in names]
    outcomes = await store.persistence.apply([Write(RecordKey(topic), LedgerRanges(), NEW) for topic in topics])
    assert all(outcome.error is None for outcome in outcomes)
    ordered = sorted(topics, key=sort_key)
    async with await open_metadata(prefix.url, StoreOptions(in_flight_max=in_flight_max)) as narrow:
        assert [topic async for topic in narrow.persistence.topics()] == ordered
        for prefix_bytes in (
            b"",
            b"w",
            b"wide/",
            b"deep/er",
            b"deep/er/still/1",
            b"wide/7/x/y",
            b"\xff/",
            b"none",
            b"a//",
        ):
            expected = [topic for topic in ordered if topic.startswith(prefix_bytes)]
            assert [topic async for topic in narrow.persistence.topics(prefix_bytes)] == expected
        for start in (b"deep", b"deep/er/still/5", b"deep/er/still/5/x", b"m", b"w/1", b"\xff", b"a//b"):
            after = sort_key(Topic(start))
            expected = [topic for topic in ordered if sort_key(topic) > after]
            assert [topic async for topic in narrow.persistence.topics(None, Topic(start))] == expected


async def test_listing_given_up_half_way_leaves_the_store_usable(store: MetadataStore) -> None:
    topics = [Topic(b"%d" % number) for number in range(500)]
    await store.persistence.apply([Write(RecordKey(topic), LedgerRanges(), NEW) for topic in topics])
    before = len(asyncio.all_tasks())
    listing = store.persistence.topics()
    assert await anext(listing) == b"0"
    await listing.aclose()  # type: ignore[attr-defined]
    assert len(asyncio.all_tasks()) <= before
    assert len([topic async for topic in store.persistence.topics()]) == 500
